"""Whether calls take longer and longer: their percentiles in each stretch of a run, and lines through them.

Pure. It knows stretches and what of a line's rise is chance. It does not know who calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from online.call import Call, begun, took_ms
from online.plan import When

from soak.slope import Slope, settled

_STRETCHES, _SHORTEST_S = 60, 2.0
# What neighbours on a machine and a processor's clock make of a percentile, and what nobody notices.
_SHARE, _FEW_MS = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class Drift:
    """Of calls of one kind; a sample for each stretch in which one was answered.

    Attributes:
        at_s: The middles of the stretches, in seconds since the first began.
        p50_ms: Of calls that began in them and were answered.
        p95_ms: Likewise.
    """

    at_s: Sequence[float]
    p50_ms: Sequence[float]
    p95_ms: Sequence[float]

    @classmethod
    def of(cls, calls: Sequence[Call], when: When) -> Self:
        """Cut a run into stretches.

        Args:
            calls: Of one kind.
            when: The load was there.
        """
        num = int(min(_STRETCHES, max(3, when.seconds / _SHORTEST_S)))
        long_s = when.seconds / num
        at_s, found = [], []
        for number in range(num):
            began_s = when.begin_s + number * long_s
            if took := took_ms(begun(calls, began_s, began_s + long_s), "answered"):
                at_s.append((number + 0.5) * long_s)
                found.append(np.percentile(took, (50, 95)).tolist())
        return cls(at_s, [p50 for p50, _ in found], [p95 for _, p95 in found])

    def slopes(self) -> dict[str, Slope]:
        """Lines through each percentile, by its name; none where too few calls were answered."""
        counted = settled(self.at_s)
        if len(self.at_s[counted]) < 2:
            return {}
        return {
            name: Slope.of(self.at_s[counted], values[counted], share=_SHARE, few=_FEW_MS)
            for name, values in (("p50", self.p50_ms), ("p95", self.p95_ms))
        }
