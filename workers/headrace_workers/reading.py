"""What a worker has in hand and at work at one moment.

Knows where to read it off. Taken on the event loop, since queues may only be walked there; then it never changes, so
any thread may read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace_contracts import PRIORITIES, Priority

from headrace_workers.lane import Lane
from headrace_workers.purse import Purse
from headrace_workers.rate import Rate
from headrace_workers.schedule import Scheduler
from headrace_workers.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassReading:
    """Of one class.

    Attributes:
        queue_chunks: chunks in hand that wait for a step.
        queue_tokens: their tokens.
        queue_oldest_s: how long ago the broker stored the oldest of them; 0 where there are none.
        budget_bytes: what may be in hand or on its way.
        credit_bytes: what the broker may still send against open pulls.
        held_bytes: what is in hand.
    """

    queue_chunks: int = 0
    queue_tokens: int = 0
    queue_oldest_s: float = 0.0
    budget_bytes: int = 0
    credit_bytes: int = 0
    held_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Of a worker.

    Attributes:
        classes: what there is of each class.
        steps_in_flight: steps that the device has.
        step_budget_tokens: tokens of one step at most.
        tokens_per_s: what it takes itself for able to do; None while it does not know.
    """

    classes: Mapping[Priority, ClassReading]
    steps_in_flight: int = 0
    step_budget_tokens: int = 0
    tokens_per_s: int | None = None

    @classmethod
    def nothing(cls) -> "Reading":
        """Before there is anything."""
        return cls(classes={priority: ClassReading() for priority in PRIORITIES})

    @classmethod
    def of(cls, scheduler: Scheduler[Work], purses: Mapping[Priority, Purse], lane: Lane, rate: Rate) -> "Reading":
        """Read it off the parts of a worker."""
        return cls(
            classes={priority: _of_class(priority, scheduler, purses[priority]) for priority in PRIORITIES},
            steps_in_flight=lane.num_in_flight,
            step_budget_tokens=scheduler.step_tokens,
            tokens_per_s=rate.value,
        )


def _of_class(priority: Priority, scheduler: Scheduler[Work], purse: Purse) -> ClassReading:
    apart = [work for work in scheduler.apart if work.delivery.priority == priority]
    oldest = [*scheduler.first(priority), *apart]
    return ClassReading(
        queue_chunks=scheduler.num_queued(priority) + len(apart),
        queue_tokens=scheduler.num_tokens(priority) + sum(work.num_tokens for work in apart),
        queue_oldest_s=max((work.delivery.age_ms for work in oldest), default=0.0) / 1000,
        budget_bytes=purse.limit,
        credit_bytes=purse.credit,
        held_bytes=purse.held,
    )
