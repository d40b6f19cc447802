"""Which queues chunks waited in for long of late, and which of a tenant's two to take.

Knows what replies say of how long a chunk waited. A tenant shares each of its queues with others; should one of them
send a burst, all behind it wait, and the tenant's other queue is the better choice (the power of two choices,
Mitzenmacher 2001). Pure. Does not know NATS, nor what a route is but a name.
"""

import math
from collections.abc import Sequence

from headrace_contracts import Usage

from headrace.avoided import Avoided

# Steps that a chunk may wait for in a queue that is not crowded: the running one, its own, and one that batch is owed.
_STEPS = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class QueueWaits:
    """What one client found out about the queues of its chunks."""

    def __init__(self) -> None:
        self._crowded = Avoided(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._waited_ms: dict[str, float] = {}

    def order(self, routes: Sequence[str], now_s: float) -> tuple[str, ...]:
        """The routes in the order to try them in: as they are, but crowded ones last, the least crowded first."""
        if not self._crowded:
            return tuple(routes)
        return tuple(sorted(routes, key=lambda route: self._waited_ms[route] if self._crowded.now(route, now_s) else 0))

    def tried(self, route: str, now_s: float) -> None:
        """A chunk goes there now."""
        if not self._crowded.now(route, now_s):
            self._crowded.tried(route, now_s)

    def answered(self, route: str, usage: Usage, now_s: float) -> None:
        """A chunk that went there was answered."""
        if usage.queue_ms > _STEPS * usage.run_ms:
            self._add(route, usage.queue_ms, now_s)
        else:
            self._crowded.forgive(route)

    def failed(self, route: str, now_s: float) -> None:
        """It was full, or a chunk that was stored there was not answered in time."""
        self._add(route, math.inf, now_s)

    def _add(self, route: str, waited_ms: float, now_s: float) -> None:
        self._waited_ms[route] = waited_ms
        self._crowded.add(route, now_s)
