"""The lines of a plot: what was measured and what the law says, for each kind of batch.

Knows numbers. Does not know how they are drawn. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_workers.calibration.calibration import Calibration
from headrace_workers.calibration.cost import Cost, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One kind of batch.

    Attributes:
        kind: what they have in common.
        tokens: of each batch, rising.
        ms: its measured time.
        law_ms: its time by the law.
    """

    kind: str
    tokens: tuple[int, ...]
    ms: tuple[float, ...]
    law_ms: tuple[float, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Measured tokens/s."""
        return _rates(self.tokens, self.ms)

    @property
    def law_rates(self) -> tuple[float, ...]:
        """Tokens/s by the law."""
        return _rates(self.tokens, self.law_ms)


def series(calibration: Calibration) -> tuple[Series, ...]:
    """All kinds, in the order that they were measured in."""
    kinds = dict.fromkeys(point.kind for point in calibration.points)
    return tuple(
        _series(kind, [point for point in calibration.points if point.kind == kind], calibration.cost) for kind in kinds
    )


def _series(kind: str, points: Sequence[Point], cost: Cost) -> Series:
    rising = sorted(points, key=lambda point: point.num_tokens)
    return Series(
        kind=kind,
        tokens=tuple(point.num_tokens for point in rising),
        ms=tuple(point.ms for point in rising),
        law_ms=tuple(cost.step_ms(point.num_tokens, point.num_squares) for point in rising),
    )


def _rates(tokens: Sequence[int], ms: Sequence[float]) -> tuple[float, ...]:
    return tuple(1000 * count / time for count, time in zip(tokens, ms, strict=True))
