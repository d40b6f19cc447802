"""What runs next: filled by tokens, online first, batch never below its floor.

Pure and without a clock. Does not know NATS, asyncio or the engine, nor the order inside a class: fair_queue.py has it.
Why no cleverer filling: at encoder sizes the time of a step is nearly linear in its tokens, so there is nothing to gain
by one (ops/decisions/0007).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace_contracts import PRIORITIES, Priority

from headrace_workers.fair_queue import FairQueue, Item

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

    A step that online work waits for is not filled up with batch, or that work would wait for all of it: what room it
    leaves is batch's, but in a step of its own, as soon as it amounts to one. So a query waits behind one step at most,
    and batch gets all that online leaves (ops/decisions/0026).

    `plan` early and prepare the step while the device is busy; `plan` again when the device is free and, should the two
    differ, prepare anew; then `take` it. So preparing ahead never makes an online request wait for one more step.

    Attributes:
        step_tokens: tokens of one step at most.
    """

    def __init__(self, step_tokens: int, batch_floor: float) -> None:
        self.step_tokens = step_tokens
        self._batch_floor = batch_floor
        self._queues: dict[Priority, FairQueue[W]] = {
            priority: FairQueue(parts_apart=priority == "online") for priority in PRIORITIES
        }
        self._apart: deque[tuple[W, ...]] = deque()
        self._apart_ran_last = False
        # Tokens that batch may claim ahead of online; grows by its floor with every step that passed it over.
        self._owed = 0.0
        # Room that steps of all online work left while batch waited.
        self._room = 0

    def num_queued(self, priority: Priority) -> int:
        """Works of a class that wait."""
        return len(self._queues[priority])

    def num_tokens(self, priority: Priority) -> int:
        """Tokens of these."""
        return self._queues[priority].num_tokens

    def first(self, priority: Priority) -> list[W]:
        """Those of a class that came first, the oldest among them."""
        return self._queues[priority].first

    @property
    def apart(self) -> list[W]:
        """Works of whichever class that wait for a step without others; the methods above leave them out."""
        return [work for part in self._apart for work in part]

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._apart) or any(self._queues.values())

    def push(self, priority: Priority, work: W) -> None:
        """Queue work where its class and tenant have their turn.

        Raises:
            ValueError: it is larger than a step and so would never run.
        """
        if work.num_tokens > self.step_tokens:
            raise ValueError(f"work of {work.num_tokens} tokens cannot run in steps of {self.step_tokens}")
        self._queues[priority].push(work)

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
        if not any(self._queues.values()):
            return None
        batch_queue = self._queues["batch"]
        claim = batch_queue.head(min(self._owed, self.step_tokens))
        online = self._queues["online"].head(self.step_tokens - _tokens(claim))
        if not online or (batch_queue and self._room >= self.step_tokens):
            return Plan((), batch_queue.head(self.step_tokens))
        return Plan(online, claim)

    def take(self, plan: Plan[W]) -> None:
        """Take the plan's works out of the queues; it must be what `plan` returned last."""
        self._apart_ran_last = bool(plan.apart)
        if plan.apart:
            self._apart.popleft()
            return
        batch_waited = bool(self._queues["batch"])
        self._queues["online"].take(plan.online)
        self._queues["batch"].take(plan.batch)
        if batch_waited:
            used = _tokens(plan.batch)
            # What batch got beyond its floor is no credit to online: the floor holds from now on. The debt needs no
            # upper bound: at a full step any head of the queue fits, so it is paid before it grows further.
            self._owed = max(0.0, self._owed + self._batch_floor * (_tokens(plan.online) + used) - used)
            if not plan.online:
                self._room = 0
            elif not self._queues["online"]:  # or else it would have taken more
                self._room += self.step_tokens - _tokens(plan.works)
        if not self._queues["batch"]:
            self._owed, self._room = 0.0, 0

    def drop(self, is_unwanted: Callable[[W], bool]) -> list[W]:
        """Take out and return what is not to run any more."""
        unwanted = []
        for queue in self._queues.values():
            found = [work for work in queue if is_unwanted(work)]
            if found:
                queue.remove(found)
                unwanted += found
        parts = [tuple(work for work in part if not is_unwanted(work)) for part in self._apart]
        unwanted += [work for part in self._apart for work in part if is_unwanted(work)]
        self._apart = deque(part for part in parts if part)
        return unwanted

    def clear(self) -> list[W]:
        """Take out and return everything."""
        return self.drop(lambda _: True)


def _tokens(works: tuple[W, ...]) -> int:
    return sum(work.num_tokens for work in works)
