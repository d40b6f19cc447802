"""The call that is being made now, known from the client down to what it publishes.

Knows what has been noted of it. One call runs in one context, and its chunks in copies of that.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.testing.recorded_call import RecordedCall


@dataclass(slots=True)
class Progress:
    """One call from its texts to its result.

    Attributes:
        texts: texts or documents that were handed in.
        query: of a score.
        prompt: that goes with them.
        call: what is remembered of it, once its arguments have turned out right.
    """

    texts: tuple[str, ...] = ()
    query: str | None = None
    prompt: str = ""
    call: RecordedCall | None = None
    _verdicts: dict[str, HeadraceError | None] = field(default_factory=dict)

    def verdict(self, attempt: str, judge: Callable[[RecordedCall], HeadraceError | None]) -> HeadraceError | None:
        """Whether an attempt is to fail: its chunks fare all alike, so that one failure is one call's."""
        if self.call is None:
            return None
        if attempt not in self._verdicts:
            self._verdicts[attempt] = judge(self.call)
        return self._verdicts[attempt]


CURRENT: ContextVar[Progress] = ContextVar("headrace.testing.call")
