"""Whether something grows: a line through samples that outliers do not bend, and what counts as flat.

Pure. It knows the estimator of Theil and Sen: the median of the slopes of all pairs of samples (P. K. Sen, Estimates of
the regression coefficient based on Kendall's tau, JASA 63, 1968).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

# Of what there is: an allocator keeps pages or gives them back by as much.
_SHARE = 0.02
# Times the spread of samples around the line.
_SPREADS = 3.0
# What is counted comes and goes by so many, whatever its spread: a connection, a file.
_FEW = 2.0
_MAX_SAMPLES = 600  # all pairs of more would take long for the same answer


@dataclass(frozen=True, slots=True)
class Slope:
    """A line through samples.

    Attributes:
        per_hour: What it rises in an hour.
        growth: What it rises from the first sample to the last.
        noise: What it may rise by chance.
        level: The median sample.
    """

    per_hour: float
    growth: float
    noise: float
    level: float

    @classmethod
    def of(cls, at_s: Sequence[float], values: Sequence[float], *, share: float = _SHARE, few: float = _FEW) -> Self:
        """Fit one.

        Args:
            at_s: When each sample was taken, in seconds, in order; at least two different ones.
            values: The samples.
            share: Of the median sample, that a rise may be by chance.
            few: What it may be by chance whatever the samples.
        """
        step = max(1, len(at_s) // _MAX_SAMPLES)
        moments, samples = np.asarray(at_s[::step], float), np.asarray(values[::step], float)
        first, second = np.triu_indices(len(moments), 1)
        slope = float(np.median((samples[second] - samples[first]) / (moments[second] - moments[first])))
        around = samples - slope * (moments - moments[0])
        spread = float(np.median(np.abs(around - np.median(around))))
        level = float(np.median(samples))
        return cls(
            per_hour=slope * 3600,
            growth=slope * float(moments[-1] - moments[0]),
            noise=max(_SPREADS * spread, share * level, few),
            level=level,
        )

    @property
    def over_noise(self) -> float:
        """How many times the noise it has risen: at most 1 is flat. What falls is flat."""
        return max(0.0, self.growth / self.noise)


def settled(samples: Sequence[float]) -> slice:
    """Which samples count: the first third is for caches to fill and for steps of all shapes to have come."""
    return slice(len(samples) // 3, None)
