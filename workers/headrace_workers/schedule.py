"""What runs next: first come, first served inside a class, filled by tokens, online first, batch never below its floor.

Pure and without a clock. Does not know NATS, asyncio or the engine; a work item only needs to say how many tokens it
has. Why no cleverer order: at encoder sizes the time of a step is nearly linear in its
tokens, so there is nothing to gain by one (ops/decisions/0007).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from headrace_contracts import PRIORITIES, Priority


class Item(Protocol):
    """What the scheduler must know of a piece of work."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it adds to a step; at most the step budget."""
        ...


W = TypeVar("W", bound=Item)


@dataclass(frozen=True, slots=True)
class Plan(Generic[W]):
    """The next step as it looks now. Nothing has left the queues: equal plans run the same works."""

    online: tuple[W, ...]
    batch: tuple[W, ...]
    apart: tuple[W, ...] = ()

    @property
    def works(self) -> tuple[W, ...]:
        """All works of the step."""
        return self.online + self.batch + self.apart


class Scheduler(Generic[W]):
    """Two queues and the rule that fills a step from them.

    `plan` early and prepare the step while the device is busy; `plan` again when the device is free and, should the two
    differ, prepare anew; then `take` it. So preparing ahead never makes an online request wait for one more step.
    """

    def __init__(self, step_tokens: int, batch_floor: float) -> None:
        self._step_tokens = step_tokens
        self._batch_floor = batch_floor
        self._queues: dict[Priority, deque[W]] = {priority: deque() for priority in PRIORITIES}
        self._apart: deque[tuple[W, ...]] = deque()
        self._apart_ran_last = False
        # Tokens that batch may claim ahead of online; grows by its floor with every step that passed it over.
        self._owed = 0.0

    def num_queued(self, priority: Priority) -> int:
        """Works of a class that wait."""
        return len(self._queues[priority])

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._apart) or any(self._queues.values())

    def push(self, priority: Priority, work: W) -> None:
        """Queue work behind the rest of its class.

        Raises:
            ValueError: it is larger than a step and so would never run.
        """
        if work.num_tokens > self._step_tokens:
            raise ValueError(f"work of {work.num_tokens} tokens cannot run in steps of {self._step_tokens}")
        self._queues[priority].append(work)

    def push_apart(self, works: tuple[W, ...]) -> None:
        """Queue works that share their step with no others: a part of a step that failed, or a suspect.

        Such steps go before the others, but never two of them while others wait.
        """
        self._apart.append(works)

    def plan(self) -> Plan[W] | None:
        """The next step, or None when nothing is queued."""
        together = self._together()
        if self._apart and not (self._apart_ran_last and together):
            return Plan((), (), self._apart[0])
        return together

    def _together(self) -> Plan[W] | None:
        online_queue, batch_queue = self._queues["online"], self._queues["batch"]
        claim = _fitting(batch_queue, min(self._owed, self._step_tokens))
        room = self._step_tokens - _tokens(claim)
        online = _fitting(online_queue, room)
        batch = _fitting(batch_queue, _tokens(claim) + room - _tokens(online))
        return Plan(online, batch) if online or batch else None

    def take(self, plan: Plan[W]) -> None:
        """Take the plan's works out of the queues; it must be what `plan` returned last."""
        self._apart_ran_last = bool(plan.apart)
        if plan.apart:
            self._apart.popleft()
            return
        batch_waited = bool(self._queues["batch"])
        for queue, works in ((self._queues["online"], plan.online), (self._queues["batch"], plan.batch)):
            for _ in works:
                queue.popleft()
        if batch_waited:
            used = _tokens(plan.batch)
            # What batch got beyond its floor is no credit to online: the floor holds from now on. The debt needs no
            # upper bound: at a full step any head of the queue fits, so it is paid before it grows further.
            self._owed = max(0.0, self._owed + self._batch_floor * (_tokens(plan.online) + used) - used)
        if not self._queues["batch"]:
            self._owed = 0.0

    def drop(self, is_unwanted: Callable[[W], bool]) -> list[W]:
        """Take out and return what is not to run any more."""
        unwanted = [work for queue in (*self._queues.values(), *self._apart) for work in queue if is_unwanted(work)]
        if unwanted:
            gone = set(map(id, unwanted))
            for priority, queue in self._queues.items():
                self._queues[priority] = deque(work for work in queue if id(work) not in gone)
            parts = [tuple(work for work in part if id(work) not in gone) for part in self._apart]
            self._apart = deque(part for part in parts if part)
        return unwanted

    def clear(self) -> list[W]:
        """Take out and return everything."""
        works = [work for queue in (*self._queues.values(), *self._apart) for work in queue]
        for queue in self._queues.values():
            queue.clear()
        self._apart.clear()
        return works


def _fitting(queue: deque[W], room: float) -> tuple[W, ...]:
    """The longest head of the queue that fits into `room` tokens. Never looks past what does not fit: first come."""
    count = 0
    for work in queue:
        room -= work.num_tokens
        if room < 0:
            break
        count += 1
    return tuple(islice(queue, count))


def _tokens(works: tuple[W, ...]) -> int:
    return sum(work.num_tokens for work in works)
