"""Latency and throughput against the number of clients.

It knows the suite of that name. It knows no ratio.
"""

import re
from collections.abc import Callable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from result import Entry, Result, Suite

from reporting import words
from reporting.plots import style
from reporting.ratios import counts

_TICKS = tuple(digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5))


def concurrency(result: Result) -> Figure | None:
    """The median with a band up to the 90th percentile, and calls a second beside it; None without such a suite."""
    suite = next((suite for suite in result.suites if suite.name == "high-concurrency"), None)
    if suite is None or not any(map(counts, (entry for case in suite.cases for entry in case.entries))):
        return None
    figure = style.canvas(10.4, 4.4)
    left, right = figure.subplots(1, 2)
    marks, labels = style.marks(result.contenders), words.labels(result)
    for axes, title, y in (
        (left, "Milliseconds a call: the median; shaded to p90", _median),
        (right, "Calls a second", _rate),
    ):
        lines = {name: _line(suite, name, y) for name in labels}
        _scales(axes, lines)
        axes.set_title(title)
        axes.set_xlabel("clients at the same time")
        for name, line in lines.items():
            if line:
                axes.plot(list(line), list(line.values()), **marks[name].line())
                if axes is left:
                    upper = _line(suite, name, _slow)
                    axes.fill_between(
                        list(line),
                        list(line.values()),
                        list(upper.values()),
                        color=marks[name].colour,
                        alpha=0.12,
                        lw=0,
                    )
        style.label_ends(axes, [(*_last(line), labels[name], marks[name]) for name, line in lines.items() if line])
    return figure


def _line(suite: Suite, contender: str, y: Callable[[Entry], float]) -> dict[int, float]:
    """By clients: only what counts."""
    return {
        _clients(case.name, index): y(entry)
        for index, case in enumerate(suite.cases, 1)
        for entry in case.entries
        if entry.contender == contender and counts(entry)
    }


def _clients(case: str, index: int) -> int:
    found = re.match(r"\d+", case)
    return int(found.group()) if found else index


def _median(entry: Entry) -> float:
    return entry.took.p50_ms if entry.took else 0


def _slow(entry: Entry) -> float:
    return entry.took.p90_ms if entry.took else 0


def _rate(entry: Entry) -> float:
    return entry.per_s


def _last(line: dict[int, float]) -> tuple[float, float]:
    return max(line.items())


def _scales(axes: Axes, lines: Mapping[str, dict[int, float]]) -> None:
    clients = sorted({x for line in lines.values() for x in line})
    values = [y for line in lines.values() for y in line.values()]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(clients[0] / 1.12, clients[-1] * 1.12)
    axes.set_ylim(min(values) / 1.35, max(values) * 1.45)
    axes.xaxis.set_major_locator(FixedLocator(clients))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(
        FixedLocator([tick for tick in _TICKS if min(values) / 1.35 <= tick <= max(values) * 1.45])
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
