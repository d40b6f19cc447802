"""All pictures of a result, as files.

It knows which there are. It knows nothing of what is in them.
"""

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure
from result import Result

from reporting.plots.backlog import backlog
from reporting.plots.calibration import calibration
from reporting.plots.ceiling import ceiling
from reporting.plots.concurrency import concurrency
from reporting.plots.overview import overview
from reporting.plots.parts import parts
from reporting.plots.style import look, save

PLOTS = (overview, concurrency, ceiling, calibration, parts, backlog)


def draw(result: Result, folder: Path, suffix: str = ".svg") -> frozenset[str]:
    """Write every picture that the result has data for; return their names without the suffix."""
    with look():
        drawn = dict(_figures(result))
        for name, figure in drawn.items():
            save(figure, folder / f"{name}{suffix}")
    return frozenset(drawn)


def _figures(result: Result) -> Iterator[tuple[str, Figure]]:
    for plot in PLOTS:
        figure = plot(result)
        if figure is not None:
            yield plot.__name__, figure
