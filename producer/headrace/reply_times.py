"""How long the last replies took, and what few of them exceeded.

Pure. Knows a window of times. Does not know what they are for: hedging.py does.
"""

import math
from collections import deque

_WINDOW = 256
# So many replies may come before the quantile is found anew: sorting for each would cost more than it tells.
_STALE = 16


class ReplyTimes:
    """The times of the last replies of one kind."""

    def __init__(self, quantile: float) -> None:
        """Take the share of replies that come within the time looked for."""
        self._quantile = quantile
        self._times_s: deque[float] = deque(maxlen=_WINDOW)
        self._num_new = 0
        self._found_s: float | None = None
        # Fewer say nothing of a quantile beyond all of them.
        self._least = math.ceil(1 / (1 - quantile))

    def add(self, seconds: float) -> None:
        """One more reply came."""
        self._times_s.append(seconds)
        self._num_new += 1

    @property
    def late_s(self) -> float | None:
        """The quantile of the last replies, in seconds; None while there are too few."""
        if len(self._times_s) < self._least:
            return None
        if self._found_s is None or self._num_new >= _STALE:
            rank = math.ceil(self._quantile * len(self._times_s))
            self._found_s = sorted(self._times_s)[rank - 1]
            self._num_new = 0
        return self._found_s
