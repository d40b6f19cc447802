"""How many tokens a second a worker does when it has enough to do.

Knows which of a worker's steps tell, and what a calibration says before there are any. Pure; whoever calls it says what
time it is. A worker that waits for work does less than it could: so a step counts only if there was work for it since
the one before, here or in the broker, and then all the time between the two does, answers and pulls included.
"""

import math

from headrace_workers.calibration.cost import Cost

# Seconds of such steps before they say more than a calibration, and those in which older ones lose their weight.
_ENOUGH_S = 1.0
_MEMORY_S = 10.0
# Longer than a pull takes: a worker that waited so long for what the broker had was not served, for others were.
_PULL_S = 0.1
# A worker that does so many times what it is thought to do is not just between two steps.
_FAR = 1.5
# What texts usually have, whatever the longest may.
_USUAL_LENGTH = 128


class Rate:
    """The tokens/s of one worker."""

    def __init__(self, calibrated: int | None = None) -> None:
        """Start with what a calibration says; None where there is none."""
        self._calibrated = calibrated
        self._tokens = 0.0
        self._seconds = 0.0
        self._num_pending = 0
        self._num_chunks = 0
        self._num_running = 0
        self._has_work = False
        self._last_s: float | None = None
        self._done = 0
        self._seen: tuple[int, float] | None = None

    @property
    def value(self) -> int | None:
        """Tokens/s; None while nothing tells."""
        return round(self._tokens / self._seconds) if self._seconds >= _ENOUGH_S else self._calibrated

    def arrive(self, num_pending: int) -> None:
        """A chunk came in, and behind it so many wait in the broker."""
        self._num_pending = num_pending

    def wait(self) -> None:
        """All chunks that are here run; there is no more work but what may wait in the broker."""
        self._has_work = self._has_work and self._num_pending >= max(1, self._num_chunks)

    def start(self, num_chunks: int, now_s: float, *, is_full: bool = True) -> bool:
        """A step of so many chunks starts; whether its time will tell, for `finish`.

        Args:
            num_chunks: in it.
            now_s: the time.
            is_full: whether it has all that there was room for.
        """
        was_idle = self._last_s is not None and not self._num_running and now_s - self._last_s > _PULL_S
        tells = is_full and self._has_work and not was_idle
        self._has_work = True
        self._num_chunks = num_chunks
        self._num_running += 1
        return tells

    def finish(self, tokens: int, *, tells: bool, now_s: float) -> None:
        """A step of so many tokens is done."""
        self._done += tokens
        self._num_running -= 1
        if tells and self._last_s is not None:
            self._add(tokens, now_s - self._last_s)
        self._last_s = now_s

    def fail(self) -> None:
        """A step raised; how long it took says nothing."""
        self._num_running -= 1
        self._last_s = None

    def look(self, now_s: float) -> None:
        """Once in a while: what it did meanwhile, in whatever steps, it can do at least.

        A rate that is far too low would else stay: it makes the queue too short for steps to follow one another.
        """
        before, since_s = self._seen = self._seen or (self._done, now_s)
        tokens, seconds = self._done - before, now_s - since_s
        if seconds < _ENOUGH_S:
            return
        self._seen = (self._done, now_s)
        if self.value is not None and tokens > _FAR * self.value * seconds:
            self._add(tokens, seconds)

    def _add(self, tokens: int, seconds: float) -> None:
        kept = math.exp(-seconds / _MEMORY_S)
        self._tokens = kept * self._tokens + tokens
        self._seconds = kept * self._seconds + seconds


def calibrated_rate(cost: Cost, step_tokens: int, max_length: int) -> int | None:
    """Tokens/s in full steps of texts of usual length; None where the law says that they cost nothing.

    Args:
        cost: the law of a device.
        step_tokens: of one step at most.
        max_length: tokens of the longest sequence.
    """
    step_ms = cost.full_step_ms(step_tokens, min(_USUAL_LENGTH, max_length))
    return round(1000 * step_tokens / step_ms) if step_ms > 0 else None
