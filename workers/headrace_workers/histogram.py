"""How often values fell into which range.

Pure, plain numbers. Changed on one thread, read from any: each reading copies the counts in one operation of the
interpreter. Does not know what is measured, nor who reads it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sighting:
    """One observation, and the trace that it belongs to.

    Attributes:
        trace_id: 32 hex digits.
        value: what was observed.
    """

    trace_id: str
    value: float


class Histogram:
    """Counts of observations by upper bound, as Prometheus understands a histogram.

    Attributes:
        bounds: upper bounds, ascending; one more range, without any, follows the last.
        sum: of all that was observed.
    """

    __slots__ = ("_counts", "_sightings", "bounds", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin at zero."""
        self.bounds = tuple(bounds)
        self.sum = 0.0
        self._counts = [0] * (len(self.bounds) + 1)
        self._sightings: list[Sighting | None] = [None] * len(self._counts)

    def observe(self, value: float, times: int = 1, trace_id: str | None = None) -> None:
        """Count a value, `times` over; remember it with its trace, if there is one, as an example of its range."""
        place = bisect_left(self.bounds, value)
        self._counts[place] += times
        self.sum += value * times
        if trace_id is not None:
            self._sightings[place] = Sighting(trace_id, value)

    @property
    def counts(self) -> tuple[int, ...]:
        """Observations in each range, one more than there are bounds."""
        return tuple(self._counts)

    @property
    def sightings(self) -> tuple[Sighting | None, ...]:
        """The last observation of each range that had a trace."""
        return tuple(self._sightings)
