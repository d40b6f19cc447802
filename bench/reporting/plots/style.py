"""How all pictures look, and how they become files.

It knows colours, markers, fonts and SVG. It knows no picture. Figures are made without pyplot, so that nothing is
global, and saved without a date and with a fixed salt: the same result gives the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from result import Contender

INK = "#22272e"
FAINT = "#8a929c"
GRID = "#e4e7eb"
SHADE = "#f4f5f7"
# After Okabe and Ito (https://jfly.uni-koeln.de/color/): told apart by everyone, and in grey by their markers.
LIBRARY, SERVER = "#0072b2", "#d55e00"
_PEERS = ("#009e73", "#cc79a7", "#6b7280", "#a98600", "#56b4e9", "#7a4f2b")
_MARKERS = ("D", "^", "v", "<", ">", "p")
PARTS = ("#b9c4d0", "#8fa3b8", "#f2b48a", LIBRARY, "#d8dde3")

_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is there on every machine
    "font.size": 9,
    "svg.fonttype": "path",
    "svg.hashsalt": "headrace",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.facecolor": "white",  # opaque: a page may be dark
    "savefig.facecolor": "white",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How a contender is drawn, the same in every picture.

    Attributes:
        colour: Of its line and marker.
        marker: As matplotlib names them.
        is_hollow: Where it computes in float32.
        is_ours: Drawn larger and above the others.
    """

    colour: str
    marker: str
    is_hollow: bool
    is_ours: bool

    def points(self, size: float = 6) -> dict[str, Any]:
        """Arguments of Axes.plot for its markers."""
        return {
            "marker": self.marker,
            "markersize": size * (1.25 if self.is_ours else 1),
            "markerfacecolor": "white" if self.is_hollow else self.colour,
            "markeredgecolor": self.colour,
            "markeredgewidth": 1.4,
            "zorder": 4 if self.is_ours else 3,
        }

    def line(self) -> dict[str, Any]:
        """Arguments of Axes.plot for its line."""
        return {"color": self.colour, "linewidth": 2.4 if self.is_ours else 1.3} | self.points(5)


def marks(contenders: Sequence[Contender]) -> Mapping[str, Mark]:
    """Of every contender, by name. Dtypes of one library share a colour; float32 is hollow.

    Colours go by the alphabet, since the order of contenders depends on who ran.
    """
    families = sorted({_family(each) for each in contenders if not each.is_ours})
    return {each.name: _mark(each, families) for each in contenders}


def _mark(contender: Contender, families: Sequence[str]) -> Mark:
    if contender.is_ours:
        colour, marker = (SERVER, "s") if contender.is_server else (LIBRARY, "o")
    else:
        at = families.index(_family(contender))
        colour, marker = _PEERS[at % len(_PEERS)], _MARKERS[at % len(_MARKERS)]
    return Mark(colour=colour, marker=marker, is_hollow=contender.dtype == "float32", is_ours=contender.is_ours)


def _family(contender: Contender) -> str:
    return contender.label.rpartition(" ")[0] or contender.label


@contextmanager
def look() -> Iterator[None]:
    """Figures must be made and saved within it."""
    with mpl.rc_context(_RC):
        yield


def canvas(width: float, height: float) -> Figure:
    """An empty figure; inches."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, file: Path) -> None:
    """As SVG, or in whatever format the name ends with."""
    file.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None, "Creator": None} if file.suffix == ".svg" else None
    figure.savefig(file, metadata=metadata, dpi=110)


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, Mark]]) -> None:
    """Write each line's name beside its last point, moved apart where they would overlap.

    Args:
        axes: With its limits and scales set.
        ends: x and y of the last point, the name, and how it is drawn.
    """
    to_fraction = axes.transData + axes.transAxes.inverted()
    points = [to_fraction.transform((x, y)) for x, y, _, _ in ends]
    heights = apart([float(height) for _, height in points], 0.062)
    for (x, y, name, mark), (right, _), height in zip(ends, points, heights, strict=True):
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(float(right) + 0.06, height),
            textcoords="axes fraction",
            color=mark.colour,
            fontsize=8.5,
            fontweight="bold" if mark.is_ours else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": mark.colour,
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 5,
                "relpos": (0, 0.5),
            },
        )


def apart(positions: Sequence[float], gap: float) -> list[float]:
    """The same positions in the same order, moved as little as needs be for no two to be closer than the gap."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    groups: list[list[int]] = []
    for index in order:
        groups.append([index])
        while len(groups) > 1 and _low(groups[-1], positions, gap) < _high(groups[-2], positions, gap) + gap:
            last = groups.pop()
            groups[-1] += last
    placed = dict.fromkeys(order, 0.0)
    for group in groups:
        low = _low(group, positions, gap)
        placed |= {index: low + gap * step for step, index in enumerate(group)}
    return [placed[index] for index in range(len(positions))]


def _low(group: Sequence[int], positions: Sequence[float], gap: float) -> float:
    """Where a group begins that stands around its mean."""
    return sum(positions[index] for index in group) / len(group) - gap * (len(group) - 1) / 2


def _high(group: Sequence[int], positions: Sequence[float], gap: float) -> float:
    return _low(group, positions, gap) + gap * (len(group) - 1)
