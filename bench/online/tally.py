"""How many calls ended in which way: the books, which must balance.

Pure.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from online.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of calls.

    Attributes:
        offered: That were made.
        answered: In time.
        refused: Told to come back later.
        expired: Without an answer within their deadline.
        failed: In any other way.
        tokens: Of those that were answered.
    """

    offered: int
    answered: int
    refused: int
    expired: int
    failed: int
    tokens: int

    @classmethod
    def of(cls, calls: Iterable[Call], offered: int | None = None) -> "Tally":
        """Count.

        Args:
            calls: That ended.
            offered: As whoever made them counted; None takes those that ended.
        """
        calls = list(calls)
        kinds = Counter(call.kind for call in calls)
        return cls(
            offered=len(calls) if offered is None else offered,
            answered=kinds["answered"],
            refused=kinds["refused"],
            expired=kinds["expired"],
            failed=kinds["failed"],
            tokens=sum(call.tokens for call in calls),
        )

    @property
    def unaccounted(self) -> int:
        """Calls that were neither answered nor refused nor given up at their deadline: 0 where the books balance."""
        return self.offered - self.answered - self.refused - self.expired

    @property
    def success(self) -> float:
        """The part that was answered; 0 where nothing was offered."""
        return self.answered / self.offered if self.offered else 0.0
