"""How long to wait before each next try: twice as long each time. Pure."""

_FIRST_S, _LONGEST_S = 0.05, 1.0


class Pauses:
    """The pauses of one chunk, from 50 ms to a second."""

    def __init__(self) -> None:
        self._next_s = _FIRST_S

    def take_s(self) -> float:
        """The seconds to wait now."""
        now_s, self._next_s = self._next_s, min(2 * self._next_s, _LONGEST_S)
        return now_s
