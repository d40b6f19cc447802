"""How long callers wait for what they ask, queue by queue: the tenants of one need not be those of another.

Knows the requests that came of late. Pure. A queue as long as its callers' patience is the worst of all: each request
comes to its turn just before its deadline, runs, and is answered to nobody. So a queue must be shorter than that.
"""

from collections import defaultdict, deque

import numpy as np

_REMEMBERED = 500
_ENOUGH = 20
# Those who wait for less than the others do must find it short enough too; a few of them shall not decide.
_QUANTILE = 0.1


class Patience:
    """The patience of recent callers."""

    def __init__(self) -> None:
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def add(self, queue: str, seconds: float) -> None:
        """One waits for so long, from the moment the broker stored its request there; less than 0 is not at all."""
        # A request can be stored after its deadline: its client was late, or their clocks differ.
        self._recent[queue].append(max(0.0, seconds))

    def seconds(self, queue: str) -> float | None:
        """What nine of ten callers of a queue wait for at least; None before enough came."""
        recent = self._recent[queue]
        return float(np.quantile(recent, _QUANTILE)) if len(recent) >= _ENOUGH else None
