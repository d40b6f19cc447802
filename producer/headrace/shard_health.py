"""Which routes did not answer lately, and are tried last for a while.

Pure. Knows two ways in which a route fails: of a server that is gone its neighbours say so at once; one that stands
still or is cut off says nothing, and who publishes to it waits for the time-out. Does not know NATS, nor what a route
is but a name.
"""

from collections.abc import Sequence

from headrace.avoided import Avoided

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0


class ShardHealth:
    """What one client found out about the routes of its chunks."""

    def __init__(self) -> None:
        self._proven: set[str] = set()
        self._silent = Avoided(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    def order(self, routes: Sequence[str], now_s: float) -> tuple[str, ...]:
        """The routes in the order to try them in: as they are, but silent ones last until their pause is over."""
        if not self._silent:
            return tuple(routes)
        return tuple(sorted(routes, key=lambda route: self._silent.now(route, now_s)))

    def tried(self, route: str, now_s: float) -> None:
        """A chunk goes there now; if the route was silent, that one finds out and the others stay away for longer."""
        self._silent.tried(route, now_s)

    def answered(self, route: str) -> None:
        """It took a chunk."""
        self._proven.add(route)
        self._silent.forgive(route)

    def gone(self, route: str) -> bool:
        """Nobody is there, which is learnt at once and costs nothing to ask again.

        Returns:
            Whether it took chunks up to now: they are lost.
        """
        self._silent.forgive(route)
        if route not in self._proven:
            return False
        self._proven.remove(route)
        return True

    def reconnected(self) -> None:
        """The connection is a new one: who said nothing on the one before was perhaps never asked."""
        self._silent.forgive_all()

    def is_silent(self, route: str) -> bool:
        """Whether it has taken nothing since it did not answer in time."""
        return route in self._silent

    def silent(self, route: str, now_s: float) -> bool:
        """It did not answer in time.

        Returns:
            Whether it did up to now: what others have just sent there will fare no better.
        """
        if route in self._silent:
            return False
        self._silent.add(route, now_s)
        return route in self._proven
