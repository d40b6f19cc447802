"""The order inside a class: tenants share it by tokens, and inside a tenant no large call holds up a small one.

Tenants are queued by start times (Goyal, Vin and Cheng, SIGCOMM 1996): virtual time is in tokens, each tenant has its
own, and the one that is furthest behind is next. Inside a tenant a call of one chunk is *whole*, one of several chunks
comes in *parts*. Whole calls go first, first come, first served; for each of their tokens that ran while parts waited,
parts have one, so neither can hold up the other for good. Pure. Does not know steps, classes or NATS.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Generic, Protocol, TypeVar


class Item(Protocol):
    """What the queue must know of a piece of work."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it adds to a step."""
        ...

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...

    @property
    def job(self) -> str | None:
        """The larger call or bulk job that it is a part of; None if it is a whole call."""
        ...


W = TypeVar("W", bound=Item)


@dataclass(slots=True, eq=False)
class _Tenant(Generic[W]):
    """A tenant of which work waits.

    Attributes:
        start: its virtual time: when its next work may start.
        whole: calls of one chunk that wait.
        parts: of larger calls that wait.
        owed: tokens that parts may run before whole calls.
        num_tokens: of all that waits.
    """

    start: float
    whole: deque[W] = field(default_factory=deque)
    parts: deque[W] = field(default_factory=deque)
    owed: int = 0
    num_tokens: int = 0

    def __len__(self) -> int:
        return len(self.whole) + len(self.parts)

    def __iter__(self) -> Iterator[W]:
        return chain(self.whole, self.parts)

    def push(self, work: W) -> None:
        self.num_tokens += work.num_tokens
        (self.whole if work.job is None else self.parts).append(work)

    def order(self) -> Iterator[W]:
        """All that waits, as it will run if nothing comes or goes."""
        whole, parts, owed = iter(self.whole), iter(self.parts), self.owed
        query, part = next(whole, None), next(parts, None)
        while query or part:
            if part and (query is None or owed >= part.num_tokens):
                yield part
                owed, part = max(0, owed - part.num_tokens), next(parts, None)
            elif query:
                yield query
                owed, query = owed + query.num_tokens, next(whole, None)

    def pop(self, work: W) -> None:
        """The first of `order` runs now."""
        self.start += work.num_tokens
        self.num_tokens -= work.num_tokens
        if work.job is None:
            self.whole.popleft()
            self.owed += work.num_tokens
        else:
            self.parts.popleft()
            self.owed = max(0, self.owed - work.num_tokens)
        if not self.parts:
            self.owed = 0

    def keep(self, gone: Container[int]) -> None:
        """Forget those whose id is there."""
        self.whole = deque(work for work in self.whole if id(work) not in gone)
        self.parts = deque(work for work in self.parts if id(work) not in gone)
        self.num_tokens = sum(work.num_tokens for work in self)


class FairQueue(Generic[W]):
    """Work of one class that waits, in fair order."""

    def __init__(self, *, parts_apart: bool = False) -> None:
        """Make an empty one.

        Args:
            parts_apart: whether whole calls and parts of larger ones share no step, so that the parts make none longer
                that a whole call waits for.
        """
        self._parts_apart = parts_apart
        self._tenants: dict[str, _Tenant[W]] = {}
        # The start of what ran last. Nobody starts before it: what a tenant did not ask for it cannot claim later.
        self._now = 0.0
        # Where those were who have nothing that waits, as long as that lies ahead: to come and go gains nothing.
        self._left: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tenants.values()))

    def __bool__(self) -> bool:
        return bool(self._tenants)

    def __iter__(self) -> Iterator[W]:
        return chain.from_iterable(self._tenants.values())

    @property
    def num_tokens(self) -> int:
        """Of all that waits."""
        return sum(tenant.num_tokens for tenant in self._tenants.values())

    @property
    def first(self) -> list[W]:
        """What came first of all that waits, of each tenant and kind: the oldest is among them."""
        return [works[0] for tenant in self._tenants.values() for works in (tenant.whole, tenant.parts) if works]

    def push(self, work: W) -> None:
        """Let it wait."""
        tenant = self._tenants.get(work.tenant)
        if tenant is None:
            tenant = _Tenant(start=max(self._now, self._left.pop(work.tenant, 0.0)))
            self._tenants[work.tenant] = tenant
        tenant.push(work)

    def head(self, room: float) -> tuple[W, ...]:
        """The longest beginning of the queue that fits into `room` tokens. Never looks past what does not fit."""
        works: list[W] = []
        for work in self._order():
            room -= work.num_tokens
            if room < 0 or (self._parts_apart and works and _is_part(work) != _is_part(works[0])):
                break
            works.append(work)
        return tuple(works)

    def _order(self) -> Iterator[W]:
        """All that waits, as it will run if nothing comes or goes."""
        if len(self._tenants) == 1:  # nearly always; and nothing to merge
            (tenant,) = self._tenants.values()
            yield from tenant.order()
            return
        nexts = [
            (_due(tenant.start, work), number, tenant.start, work, works)
            for number, tenant in enumerate(self._tenants.values())
            for works in [tenant.order()]
            for work in [next(works)]
        ]
        heapify(nexts)
        while nexts:
            _, number, start, work, works = nexts[0]
            yield work
            start += work.num_tokens
            following = next(works, None)
            if following is None:
                heappop(nexts)
            else:
                heapreplace(nexts, (_due(start, following), number, start, following, works))

    def take(self, works: tuple[W, ...]) -> None:
        """They run now; they are what `head` returned last."""
        for work in works:
            tenant = self._tenants[work.tenant]
            self._now = max(self._now, tenant.start)
            tenant.pop(work)
            self._leave_if_empty(work.tenant)

    def remove(self, works: Iterable[W]) -> None:
        """They are not to run."""
        gone = set(map(id, works))
        for name, tenant in list(self._tenants.items()):
            tenant.keep(gone)
            self._leave_if_empty(name)

    def _leave_if_empty(self, name: str) -> None:
        if self._tenants[name]:
            return
        self._left[name] = self._tenants.pop(name).start
        if not self._tenants:
            self._left.clear()
        elif len(self._left) > 2 * len(self._tenants):
            self._left = {name: start for name, start in self._left.items() if start > self._now}


def _due(start: float, work: Item) -> float:
    """When it is its turn. That of a part is when the tenant will have had its share, for a query to go before it."""
    return start + work.num_tokens if _is_part(work) else start


def _is_part(work: Item) -> bool:
    return work.job is not None
