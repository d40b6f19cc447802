"""When a chunk that was refused is tried again.

Pure but for the dice. Knows the hint that comes with a refusal, the deadline and the budget. Does not know what a
refusal is, nor how to wait.
"""

import random
from collections.abc import Callable

from headrace.retry_budget import RetryBudget

_GROWTH = 3
_SHORTEST_S = 0.05
_LONGEST_S = 10.0


class Retries:
    """The retries of one chunk: never before the hint, never past the deadline, never beyond the budget."""

    def __init__(
        self, limit: int | None, budget: RetryBudget, uniform: Callable[[float, float], float] = random.uniform
    ) -> None:
        """Make none yet.

        Args:
            limit: how many at most; None leaves that to the deadline and the budget.
            budget: of the client.
            uniform: throws the dice between two bounds.
        """
        self._limit = limit
        self._budget = budget
        self._uniform = uniform
        self._num_made = 0
        self._last_s = 0.0
        self._why_not = ""

    def pause_s(self, hint_s: float, now_s: float, deadline_s: float) -> float | None:
        """Seconds to wait before the next try, or None if there is to be none.

        The pause lies between the hint and three times the pause before (decorrelated jitter, AWS Architecture Blog,
        "Exponential Backoff And Jitter"), and at most half-way from the hint to the deadline: a try needs time to be
        answered.

        Args:
            hint_s: how long the refusal asks to stay away.
            now_s: seconds on the clock of the deadline.
            deadline_s: when nobody waits any more.
        """
        hint_s, left_s = max(hint_s, _SHORTEST_S), deadline_s - now_s
        if self._limit is not None and self._num_made >= self._limit:
            self._why_not = f"retries is {self._limit}"
        elif hint_s >= left_s:
            self._why_not = "the next try would come after the deadline"
        elif not self._budget.take(now_s):
            self._why_not = "the client's retry budget is spent"
        else:
            self._num_made += 1
            longest_s = min(_GROWTH * max(self._last_s, hint_s), max(_LONGEST_S, hint_s), (hint_s + left_s) / 2)
            self._last_s = self._uniform(hint_s, max(hint_s, longest_s))
            return self._last_s
        return None

    @property
    def said(self) -> str:
        """How often it was tried again and why no more, for the text of an error; empty if none was asked for."""
        if self._limit == 0:
            return ""
        times = "once" if self._num_made == 1 else f"{self._num_made} times"
        return f" (tried again {times}; {self._why_not})" if self._num_made else f" (not tried again: {self._why_not})"
