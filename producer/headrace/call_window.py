"""How many chunks of one call may be on their way at a time.

Knows the rule: as many as keep the fleet busy, and no more, so that a large call does not stand in the queues before
the queries of others. It needs no word from the fleet, for each reply tells how long its chunk waited. Pure.
"""

from headrace_contracts import Usage

# Two steps of half-step chunks: one that runs and one that is packed meanwhile.
LEAST = 4


class CallWindow:
    """The number of chunks, which follows from the replies that came.

    As delay-based congestion control does (TCP Vegas, Brakmo and Peterson 1995): grow while chunks hardly wait, shrink
    when they wait longer than a step takes. The first of a call find an idle worker as a rule, which says nothing yet.
    """

    def __init__(self) -> None:
        self._size = LEAST
        self._num_prompt = 0  # replies in a row whose chunks hardly waited

    def freed_by(self, usage: Usage) -> int:
        """How many chunks may be sent for one whose reply came: 0, 1 or 2."""
        is_prompt = usage.queue_ms <= usage.run_ms / 2
        self._num_prompt = self._num_prompt + 1 if is_prompt else 0
        if self._num_prompt > LEAST:
            self._size += 1
            return 2
        if usage.queue_ms > usage.run_ms and self._size > LEAST:
            self._size -= 1
            return 0
        return 1

    def refused(self) -> None:
        """One that was on its way found no room, and is not any more."""
        self._size -= 1
