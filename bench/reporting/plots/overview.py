"""The picture that says it all: how many times as fast as the best peer, case by case.

It knows ratios. It knows no times.
"""

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from result import Result

from reporting import words
from reporting.plots import style
from reporting.plots.rows import Rows
from reporting.ratios import Field, Ratio, standings

_COLOURS: dict[Field, str] = {"library": style.LIBRARY, "server": style.SERVER, "all": style.SERVER}
_SHIFTS: dict[Field, float] = {"library": -0.2, "server": 0, "all": 0.2}
_HEADS: dict[Field, tuple[str, str]] = {
    "library": ("in process", "against the best library"),
    "server": ("over the network", "against the best server"),
    "all": ("over the network", "against the best of all"),
}
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)

# In inches, as the columns of text beside the axes need a fixed room.
_PLOT, _COLUMN, _TOP = 3.7, 1.58, 0.75

_LINE = 21  # characters of a peer's name that a column has room for


def overview(result: Result) -> Figure | None:
    """Dots around a line at 1×, and the same as numbers; None where nothing was compared."""
    found = list(standings(result))
    ratios = [standing.best for standing in found if standing.best]
    if not ratios:
        return None
    rows = Rows.of(result.suites)
    figure, axes = rows.axes(plot=_PLOT, right=len(_HEADS) * _COLUMN + 0.2, top=_TOP)
    rows.title(figure, "Headrace: how many times as fast as the best peer")
    rows.label(axes, result.suites)
    _scale(axes, ratios)
    labels = words.labels(result)
    for standing in found:
        row = rows.at(standing.suite, standing.case)
        if standing.best:
            _dot(axes, row + _SHIFTS[standing.field], standing.field, standing.best)
            _say(axes, row, standing.field, words.times(standing.best.value), labels[standing.best.peer])
        else:
            mark, reason = ("–", "no peer") if standing.ours else ("✗", "OURS IS NOT RIGHT")
            _say(axes, row, standing.field, mark, reason)
    for field in dict.fromkeys(standing.field for standing in found):
        _head(axes, field, rows.height)
    return figure


def _dot(axes: Axes, row: float, field: Field, ratio: Ratio) -> None:
    colour = _COLOURS[field]
    axes.plot([ratio.low, ratio.high], [row, row], color=colour, linewidth=1.6, alpha=0.55, solid_capstyle="round")
    _point(axes, ratio.value, row, field)


def _point(axes: Axes, x: float, y: float, field: Field) -> Line2D:
    (point,) = axes.plot(
        [x],
        [y],
        color=_COLOURS[field],
        marker="o" if field == "library" else "s",
        markersize=7 if field == "library" else 6,
        markerfacecolor="white" if field == "all" else _COLOURS[field],
        markeredgewidth=1.4,
    )
    return point


def _scale(axes: Axes, ratios: Sequence[Ratio]) -> None:
    low = min(0.5, *(ratio.low for ratio in ratios)) / 1.15
    high = max(2, *(ratio.high for ratio in ratios)) * 1.15
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in _TICKS if low <= tick <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.axvspan(low, 1, color=style.SHADE, zorder=0)
    axes.axvline(1, color=style.INK, linewidth=1.2, zorder=1)
    above = axes.get_xaxis_transform()
    axes.text(0.96, 1.005, "slower ", transform=above, ha="right", va="bottom", color=style.FAINT, style="italic")
    axes.text(1.04, 1.005, " faster", transform=above, va="bottom", color=style.FAINT, style="italic")


def _say(axes: Axes, row: float, field: Field, ratio: str, peer: str) -> None:
    beside, x = axes.get_yaxis_transform(), _column(field)
    axes.text(x, row, ratio, transform=beside, color=_COLOURS[field], weight="bold", va="center")
    lines = textwrap.wrap(peer, _LINE, break_on_hyphens=max(map(len, peer.split())) > _LINE)
    size = 7.5 if len(peer) < 20 else 6.5
    axes.text(x + _inches(0.46), row, "\n".join(lines), transform=beside, size=size, va="center", linespacing=1)


def _head(axes: Axes, field: Field, height: float) -> None:
    x = _column(field)
    upper, lower = 1 + 0.28 / height, 1 + 0.12 / height
    first, second = _HEADS[field]
    point = _point(axes, x + _inches(0.05), upper, field)
    point.set_transform(axes.transAxes)
    point.set_clip_on(False)
    axes.text(x + _inches(0.16), upper, first, transform=axes.transAxes, weight="bold", va="center", size=8.5)
    axes.text(x, lower, second, transform=axes.transAxes, va="center", size=7.5)


def _column(field: Field) -> float:
    """Where the column of a field begins, in widths of the axes."""
    return 1 + _inches(0.2 + _COLUMN * list(_HEADS).index(field))


def _inches(inches: float) -> float:
    return inches / _PLOT
