"""How a measurement is repeated, and how many numbers become a few.

It knows clocks and order statistics. It does not know what is measured. Medians stand for a typical run, since on a
shared machine a mean is made by neighbours.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_MIN_RUNS = 5
# A case so slow that five runs would take longer than this many budgets gets fewer.
_PATIENCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Order statistics of some durations.

    Attributes:
        num: How many there were.
        min_ms: The shortest.
        p50_ms: The median.
        p90_ms: Nine of ten are no longer.
        p99_ms: 99 of 100 are no longer.
    """

    num: int
    min_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float

    @classmethod
    def of(cls, durations_ms: Sequence[float]) -> "Spread":
        """Sum up at least one duration."""
        p50, p90, p99 = np.percentile(durations_ms, (50, 90, 99)).tolist()
        return cls(num=len(durations_ms), min_ms=min(durations_ms), p50_ms=p50, p90_ms=p90, p99_ms=p99)


def repeat(run: Callable[[], object], seconds: float) -> Spread:
    """Warm up, then run again and again: for so many seconds and at least five times, within reason.

    Args:
        run: What to measure.
        seconds: The budget, more than 0; a tenth of it goes to the warm-up, which is one run at least.
    """
    durations_ms(run, seconds / 10)
    return Spread.of(durations_ms(run, seconds, _MIN_RUNS))


def durations_ms(run: Callable[[], object], seconds: float, min_runs: int = 1) -> list[float]:
    """Run for so many seconds, and at least so often within reason.

    Args:
        run: What to measure.
        seconds: The budget, more than 0.
        min_runs: More than the budget allows if need be.
    """
    durations: list[float] = []
    begun = ended = time.perf_counter()
    while ended - begun < (seconds if len(durations) >= min_runs else _PATIENCE * seconds):
        started = time.perf_counter()
        run()
        ended = time.perf_counter()
        durations.append((ended - started) * 1000)
    return durations
