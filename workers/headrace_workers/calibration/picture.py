"""A calibration drawn as a PNG: time, and tokens/s, against the tokens of a batch.

Knows matplotlib, which the `plot` extra installs, and its objects alone: nothing is left behind in the process.
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from headrace_workers.calibration.calibration import Calibration
from headrace_workers.calibration.series import Series, series
from headrace_workers.calibration.summary import law, title

_INK, _SOFT, _FAINT, _MARK = "#1f2933", "#7b8794", "#e4e7eb", "#c2410c"
_MAP = colormaps["viridis"]


def draw(calibration: Calibration, file: Path) -> None:
    """Draw it into a file: dots are measured, lines are the law.

    Raises:
        OSError: The file cannot be written.
    """
    figure = Figure(figsize=(12.5, 5.6), dpi=160, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.065, right=0.98, top=0.79, bottom=0.2, wspace=0.2)
    lines = series(calibration)
    for axes in (left, right):
        _dress(axes)
    handles = [_draw_series(left, right, line, _MAP(place)) for place, line in zip(_places(lines), lines, strict=True)]
    _limit(left, right, lines)
    _mark_times(left, calibration)
    _mark_rates(right, calibration)
    handles.append(Line2D([], [], color=_SOFT, linewidth=1.6, label="the law"))
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, labelcolor=_INK, fontsize=9.5)
    figure.text(0.065, 0.935, title(calibration), fontsize=14, fontweight="bold", color=_INK)
    figure.text(0.065, 0.885, f"A step takes {law(calibration)}", fontsize=10.5, color=_SOFT)
    canvas.print_figure(file, format="png")


def _places(lines: Sequence[Series]) -> list[float]:
    """Of each kind in the colour map, whose last fifth is too pale on white."""
    return [0.8 * index / max(1, len(lines) - 1) for index in range(len(lines))]


def _dress(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_SOFT)
    axes.grid(visible=True, color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_SOFT, labelcolor=_INK, labelsize=9, length=3)
    axes.set_xlabel("tokens in the batch", color=_INK, fontsize=10)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_series(left: Axes, right: Axes, line: Series, colour: tuple[float, float, float, float]) -> Line2D:
    for axes, measured, by_law in ((left, line.ms, line.law_ms), (right, line.rates, line.law_rates)):
        axes.plot(line.tokens, by_law, color=colour, linewidth=1.6, alpha=0.75, solid_capstyle="round")
        axes.plot(
            line.tokens, measured, "o", color=colour, markersize=5.5, markeredgecolor="white", markeredgewidth=0.8
        )
    return Line2D([], [], color=colour, marker="o", linestyle="none", markersize=6, label=line.kind)


def _limit(left: Axes, right: Axes, lines: Sequence[Series]) -> None:
    left.set_yscale("log")
    left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.yaxis.set_minor_formatter(NullFormatter())
    left.yaxis.set_minor_locator(NullLocator())
    left.set_title("time of a step, ms", loc="left", color=_INK, fontsize=11)
    right.set_ylim(0, 1.14 * max(rate for line in lines for rate in (*line.rates, *line.law_rates)))
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    right.set_title("tokens/s", loc="left", color=_INK, fontsize=11)


def _mark_times(axes: Axes, calibration: Calibration) -> None:
    """The target, and what the largest step takes at worst."""
    choice = calibration.choice
    target_ms = choice.target_ms / choice.steps_ahead
    axes.axhline(target_ms, color=_MARK, linewidth=1.1, linestyle=(0, (5, 3)))
    words = f"target {choice.target_ms:g} ms"
    if choice.steps_ahead > 1:
        words += f" for {choice.steps_ahead} steps in hand"
    place = axes.get_yaxis_transform()
    axes.text(0.01, target_ms * 1.07, words, transform=place, color=_MARK, fontsize=9.5)
    step_ms = choice.wait_ms / choice.steps_ahead
    axes.plot([choice.step_tokens], [step_ms], "D", color=_MARK, markersize=7, markeredgecolor="white", zorder=5)
    axes.annotate(
        f"step budget {choice.step_tokens:,} tokens\n{step_ms:,.0f} ms at worst",
        (choice.step_tokens, step_ms),
        xytext=(-4, 9),  # above the curves, which all rise to the right
        textcoords="offset points",
        ha="right",
        color=_MARK,
        fontsize=9.5,
    )


def _mark_rates(axes: Axes, calibration: Calibration) -> None:
    """Where the device is saturated, and how large a step is."""
    choice = calibration.choice
    marks = [(choice.step_tokens, "step budget", _MARK)]
    if choice.saturation_tokens is not None:
        marks.append((choice.saturation_tokens, "saturation", _SOFT))
    # Their words stand on their outer sides, out of each other's way.
    for (place, words, colour), side in zip(sorted(marks), ("right", "left")[-len(marks) :], strict=True):
        axes.axvline(place, color=colour, linewidth=1.2, linestyle=(0, (5, 3)))
        axes.annotate(
            f"{words}\n{place:,}",
            (place, 0.03),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-5 if side == "right" else 5, 0),
            textcoords="offset points",
            ha=side,
            color=colour,
            fontsize=9.5,
        )
