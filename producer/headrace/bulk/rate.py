"""How fast a count grows, of late.

Pure: it is told the time. Does not know what is counted.
"""

from collections import deque


class Rate:
    """The growth of a count over the last seconds.

    A count that grows in jumps, as rows do that are written a window at a time, wants a window of several of them.
    """

    def __init__(self, window_s: float) -> None:
        """Look back so far, at most; by one sample more, so that rare samples have two to compare."""
        self._window_s = window_s
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, count: int) -> None:
        """Take a sample; times never go back."""
        self._samples.append((now_s, count))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - self._window_s:
            self._samples.popleft()

    def clear(self) -> None:
        """Forget all samples, where time passed that says nothing of how fast it goes."""
        self._samples.clear()

    @property
    def per_s(self) -> float | None:
        """Its growth a second; None until two moments are known."""
        if len(self._samples) < 2:
            return None
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None
