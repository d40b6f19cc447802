"""Routes that are left alone for a while, for longer each time they disappoint again.

Pure. Knows pauses. Does not know what a route is but a name, nor what is wrong with it.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Pause:
    """Of one route: how long it is left alone after the last try, and until when."""

    seconds: float
    until_s: float


class Avoided:
    """The routes, and until when."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        """Say for how long.

        Args:
            first_s: seconds at first; twice as many after each try.
            longest_s: seconds at most.
        """
        self._first_s = first_s
        self._longest_s = longest_s
        self._pauses: dict[str, _Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def __contains__(self, route: str) -> bool:
        return route in self._pauses

    def now(self, route: str, now_s: float) -> bool:
        """Whether it is to be left alone now."""
        pause = self._pauses.get(route)
        return pause is not None and now_s < pause.until_s

    def add(self, route: str, now_s: float) -> None:
        """It disappointed; if that is known already, nothing changes."""
        self._pauses.setdefault(route, _Pause(self._first_s, now_s + self._first_s))

    def tried(self, route: str, now_s: float) -> None:
        """A chunk goes there now: that one finds out whether it is better, and the others stay away for longer."""
        if (pause := self._pauses.get(route)) is not None:
            pause.seconds = min(2 * pause.seconds, self._longest_s)
            pause.until_s = now_s + pause.seconds

    def forgive_all(self) -> None:
        """All are as good as any."""
        self._pauses.clear()

    def forgive(self, route: str) -> None:
        """It is as good as any."""
        self._pauses.pop(route, None)
