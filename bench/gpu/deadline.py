"""When to stop.

It knows one clock. It does not know what takes the time.
"""

import time
from collections.abc import Callable


class Deadline:
    """A moment, some seconds after it was made.

    Attributes:
        seconds: How many.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now.

        Args:
            seconds: Until the deadline.
            clock: Seconds, ever rising.
        """
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left_s(self) -> float:
        """Seconds until then, 0 after it."""
        return max(0.0, self._end - self._clock())

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return self.left_s == 0
