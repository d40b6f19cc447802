"""Where a call of the whole path spends its time.

It knows the medians of the parts. It knows no peer.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from result import Parts, Result

from reporting import words
from reporting.plots import style

NAMES = ("tokenise", "publish", "queue", "run", "reply")


def parts(result: Result) -> Figure | None:
    """A bar a case, in parts of the whole, with milliseconds in them; None if no case was taken apart."""
    if not result.parts:
        return None
    figure = style.canvas(9.6, 1.35 + 0.5 * len(result.parts))
    axes = figure.add_subplot()
    for row, found in enumerate(result.parts):
        _bar(axes, row, found)
    axes.set_yticks(range(len(result.parts)), [_name(found) for found in result.parts])
    axes.set_ylim(len(result.parts) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_title("Where a call's time goes, over the network; ms", pad=26)
    axes.legend(
        handles=[Patch(color=colour, label=name) for name, colour in zip(NAMES, style.PARTS, strict=True)],
        loc="lower left",
        bbox_to_anchor=(-0.01, 0.98),
        ncols=len(NAMES),
        fontsize=8.5,
        handlelength=1,
        handleheight=1,
    )
    return figure


def milliseconds(found: Parts) -> Sequence[float]:
    """Of each part, in the order of the names; a little less than nothing, which differences can be, is nothing."""
    return [max(0.0, value) for value in (found.tokenise, found.publish, found.queue, found.run, found.reply)]


def _bar(axes: Axes, row: int, found: Parts) -> None:
    values = milliseconds(found)
    whole = sum(values) or 1
    left = 0.0
    for name, colour, value in zip(NAMES, style.PARTS, values, strict=True):
        width = value / whole
        axes.barh(row, width, left=left, height=0.62, color=colour, edgecolor="white", linewidth=0.8)
        if width > 0.05:
            ink = "white" if name == "run" else style.INK
            axes.text(left + width / 2, row, words.number(value), ha="center", va="center", color=ink, fontsize=8.5)
        left += width
    axes.annotate(
        f"{words.number(found.total)} ms",
        (1, row),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        weight="bold",
        annotation_clip=False,
    )


def _name(found: Parts) -> str:
    return (
        found.case
        if found.clients == 1 or str(found.clients) in found.case
        else f"{found.case}, {found.clients} clients"
    )
