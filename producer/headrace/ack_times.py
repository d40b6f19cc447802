"""How long to wait for a PubAck before it counts as missing: as long as they take, and some more.

Pure. Knows TCP's estimate of a retransmission time-out (RFC 6298): the smoothed time and four times its deviation, and
twice as long after each one that ran out in vain. Does not know NATS.
"""

_FIRST_S = 1.0
# A broker that is well takes a millisecond. This is what a call may lose where one has failed, so it is short; a
# machine that is busy for a moment must not look like one that is gone, so it is no shorter.
_LEAST_S, _MOST_S = 0.25, 2.0
_GAIN, _DEVIATION_GAIN, _DEVIATIONS = 1 / 8, 1 / 4, 4


class AckTimes:
    """What one client has seen.

    Attributes:
        timeout_s: after so many seconds a PubAck is missing.
    """

    def __init__(self) -> None:
        self.timeout_s = _FIRST_S
        self._smoothed_s: float | None = None
        self._deviation_s = 0.0

    def took(self, seconds: float) -> None:
        """One came, so long after the only publish that it can be of."""
        if self._smoothed_s is None:
            self._smoothed_s, self._deviation_s = seconds, seconds / 2
        else:
            self._deviation_s += _DEVIATION_GAIN * (abs(seconds - self._smoothed_s) - self._deviation_s)
            self._smoothed_s += _GAIN * (seconds - self._smoothed_s)
        self._estimate()

    def ran_out(self, waited_s: float) -> None:
        """None came in so long: perhaps they take longer now. Of many that waited at the same time each may say so."""
        self.timeout_s = min(max(2 * waited_s, self.timeout_s), _MOST_S)

    def reconnected(self) -> None:
        """The connection is a new one: that none came on the one before tells nothing of this one."""
        self._estimate()

    def _estimate(self) -> None:
        if self._smoothed_s is not None:
            timeout_s = self._smoothed_s + _DEVIATIONS * self._deviation_s
            self.timeout_s = min(max(timeout_s, _LEAST_S), _MOST_S)
