"""What a caller wants: calls of all kinds, or queries that are all alike.

Pure. It knows how callers are: some wait long, some hardly, some give up. It does not know when they call.
"""

import random
from dataclasses import dataclass

from headrace_contracts import Priority

SHORTEST_S, LONGEST_S = 0.2, 20.0
_FEW, _MANY = 8, 60
# Of calls: those with one text, with a few, with many.
_SIZES = (0.7, 0.25, 0.05)
_IMPATIENT, _BATCH = 0.15, 0.1
_RETRIES = (0, 2, None)
_TENANTS = (None, "search", "re-index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Calls that are all alike: of one text, online, with a client's own retries, by somebody who waits.

    Attributes:
        timeout_s: Of each.
    """

    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A call before it has a time.

    Attributes:
        texts: Which ones of the plan's.
        timeout_s: That the client is given.
        patience_s: After which it is given up; None waits.
        tenant: In whose name.
        priority: Its class.
        retries: See Client.embed.
    """

    texts: tuple[int, ...]
    timeout_s: float
    patience_s: float | None = None
    tenant: str | None = None
    priority: Priority = "online"
    retries: int | None = 0

    @classmethod
    def out_of(cls, chance: random.Random, num_texts: int, longest_s: float) -> "Wish":
        """One of all kinds that there are."""
        (most,) = chance.choices((1, _FEW, _MANY), _SIZES)
        timeout_s = round(SHORTEST_S * (longest_s / SHORTEST_S) ** chance.random(), 3)
        return cls(
            texts=tuple(chance.choices(range(num_texts), k=chance.randint(1, most))),
            timeout_s=timeout_s,
            patience_s=round(chance.random() * timeout_s, 3) if chance.random() < _IMPATIENT else None,
            tenant=chance.choice(_TENANTS),
            priority="batch" if chance.random() < _BATCH else "online",
            retries=chance.choice(_RETRIES),
        )

    @classmethod
    def query(cls, chance: random.Random, num_texts: int, queries: Queries) -> "Wish":
        """One of many that are alike, but for its text."""
        return cls(texts=(chance.randrange(num_texts),), timeout_s=queries.timeout_s)
