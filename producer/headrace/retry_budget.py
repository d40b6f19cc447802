"""How many retries a client may make in all: a share of its requests, and a small reserve.

Pure: the caller says what time it is. Each request pays in a share of a retry and each retry takes out a whole one, as
in the throttling of gRPC (proposal A6) and in Finagle's RetryBudget. So when everything is refused, a client sends a
tenth more than without retries, and not several times as much. Does not know when a retry is due: retries.py does.
"""

_SHARE = 0.1
_RESERVE = 10.0
_REFILL_PER_S = 0.1
_MOST = 100.0


class RetryBudget:
    """What all calls of a client together may still try again."""

    def __init__(
        self,
        *,
        share: float = _SHARE,
        reserve: float = _RESERVE,
        refill_per_s: float = _REFILL_PER_S,
        most: float = _MOST,
        now_s: float = 0,
    ) -> None:
        """Begin with the reserve.

        Args:
            share: retries that each request pays for.
            reserve: retries that a client with few requests has all the same.
            refill_per_s: how fast time brings back the reserve, in retries per second.
            most: retries that can be saved up, so that a long good time is not followed by a storm.
            now_s: seconds on the clock that later calls go by.
        """
        self._share = share
        self._reserve = reserve
        self._refill_per_s = refill_per_s
        self._most = most
        self._left = reserve
        self._seen_s = now_s

    def pay_in(self) -> None:
        """A request is made for the first time."""
        self._left = min(self._most, self._left + self._share)

    def take(self, now_s: float) -> bool:
        """Take out one retry, if there is one."""
        if self._left < self._reserve:
            self._left = min(self._reserve, self._left + (now_s - self._seen_s) * self._refill_per_s)
        self._seen_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
