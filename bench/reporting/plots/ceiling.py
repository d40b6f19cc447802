"""How much of the machine each contender uses: its share of what plain matrix products reach here.

It knows the share of every entry. It measures no ceiling.
"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from result import Case, Result

from reporting import words
from reporting.plots import style
from reporting.plots.rows import Rows
from reporting.ratios import counts


def ceiling(result: Result) -> Figure | None:
    """A dot for every contender in every case; None where nothing counts."""
    shares = [
        entry.limit_share for suite in result.suites for case in suite.cases for entry in case.entries if counts(entry)
    ]
    if not shares:
        return None
    rows = Rows.of(result.suites)
    figure, axes = rows.axes(plot=5.6, right=2.5, top=0.42)
    rows.label(axes, result.suites)
    axes.set_xlim(0, max(1.0, *shares) * 1.02)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.axvline(1, color=style.INK, linewidth=1.2, zorder=1)
    marks = style.marks(result.contenders)
    for suite in result.suites:
        for case in suite.cases:
            _case(axes, rows.at(suite, case), case, marks)
    rows.title(figure, f"Share of the matrix limit: {_limit(result)}")
    _key(axes, result, marks)
    return figure


def _case(axes: Axes, row: float, case: Case, marks: Mapping[str, style.Mark]) -> None:
    found = [entry for entry in case.entries if counts(entry)]
    if found:
        reach = [entry.limit_share for entry in found]
        axes.plot([min(reach), max(reach)], [row, row], color=style.GRID, linewidth=3, zorder=2)
    for entry in found:
        axes.plot([entry.limit_share], [row], **marks[entry.contender].points(6))


def _key(axes: Axes, result: Result, marks: Mapping[str, style.Mark]) -> None:
    drawn = {
        entry.contender for suite in result.suites for case in suite.cases for entry in case.entries if counts(entry)
    }
    axes.legend(
        handles=[
            Line2D([], [], linestyle="none", label=label, **marks[name].points(6))
            for name, label in words.labels(result).items()
            if name in drawn
        ],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        fontsize=8.5,
        labelspacing=0.9,
    )


def _limit(result: Result) -> str:
    fastest = max(result.ceilings, key=lambda each: each.gflops, default=None)
    if fastest is None:
        return "not measured"
    return f"{fastest.gflops:,.0f} GFLOP/s in {words.dtype(fastest.dtype)} on this machine"
