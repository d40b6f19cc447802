"""A picture with one row a case, under the titles of their suites, with room for words beside it.

It knows where things are, in inches. It knows nothing that is drawn in a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from result import Case, Suite

_ROW, _BOTTOM = 0.27, 0.35


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the row of each case is, counted from the top."""

    positions: Mapping[tuple[str, str], float]

    @classmethod
    def of(cls, suites: Sequence[Suite]) -> "Rows":
        """A row a case, and above each suite a row for its title."""
        positions: dict[tuple[str, str], float] = {}
        y = 0.0
        for suite in suites:
            for y_case, case in enumerate(suite.cases, 1):
                positions[(suite.name, case.name)] = y + y_case
            y += len(suite.cases) + 1.15
        return cls(positions)

    def at(self, suite: Suite, case: Case) -> float:
        """The row of a case."""
        return self.positions[(suite.name, case.name)]

    @property
    def height(self) -> float:
        """Of the axes, in inches."""
        return _ROW * (max(self.positions.values()) + 1)

    def axes(self, *, plot: float, right: float, top: float) -> tuple[Figure, Axes]:
        """A figure with axes as wide as `plot` and as high as the rows need, and so many inches around them."""
        left = 0.25 + 0.075 * max(len(case) for _, case in self.positions)
        width, height = left + plot + right, self.height + top + _BOTTOM
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((left / width, _BOTTOM / height, plot / width, self.height / height))
        axes.set_ylim(max(self.positions.values()) + 0.6, -0.4)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        return figure, axes

    def label(self, axes: Axes, suites: Sequence[Suite]) -> None:
        """Name every row, and every suite above its rows."""
        axes.set_yticks(list(self.positions.values()), [case for _, case in self.positions])
        for suite in suites:
            y = min(self.at(suite, case) for case in suite.cases) - 1
            axes.annotate(
                suite.title,
                (0, y),
                xycoords=("figure fraction", "data"),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                weight="bold",
                annotation_clip=False,
            )

    def title(self, figure: Figure, text: str) -> None:
        """Of the whole picture."""
        figure.text(0.01, 0.985, text, va="top", weight="bold", size=11)
