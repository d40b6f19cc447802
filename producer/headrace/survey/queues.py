"""The queues of a model: online, over all shards and tenants' queues together, and batch.

Pure. Knows which NATS streams make a queue up. Does not know how they were read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace_contracts import Priority, limits, subjects

from headrace.survey.consumers import Consumer
from headrace.survey.streams import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What waits for a model in one class.

    Attributes:
        model: whose.
        priority: online or batch.
        num_messages: chunks in it, those that workers hold included.
        num_bytes: of these, as the broker counts them.
        max_bytes: that it may hold; None where a part of it has no limit.
        oldest_s: age of the oldest chunk in seconds; 0 where it is empty.
        consumer: of all its NATS streams together; None where not all could be read.
    """

    model: str
    priority: Priority
    num_messages: int
    num_bytes: int
    max_bytes: int | None
    oldest_s: float
    consumer: Consumer | None

    @property
    def num_tokens(self) -> int:
        """About how many tokens wait; limits.estimated_tokens says how wrong that may be."""
        return limits.estimated_tokens(self.num_messages, self.num_bytes)


def queues(streams: Collection[Stream], consumers: Mapping[str, Consumer]) -> tuple[Queue, ...]:
    """The queues that these NATS streams make up, by model."""
    parts: dict[tuple[str, Priority], list[Stream]] = {}
    for stream in streams:
        queue = subjects.queue_of(stream.name)
        if queue is not None:
            parts.setdefault(queue, []).append(stream)
    return tuple(_queue(*queue, some, consumers) for queue, some in sorted(parts.items()))


def _queue(model: str, priority: Priority, parts: list[Stream], consumers: Mapping[str, Consumer]) -> Queue:
    bounds = [part.max_bytes for part in parts]
    consumer: Consumer | None = Consumer()
    for part in parts:
        theirs = consumers.get(part.name)
        consumer = None if consumer is None or theirs is None else consumer.plus(theirs)
    return Queue(
        model=model,
        priority=priority,
        num_messages=sum(part.num_messages for part in parts),
        num_bytes=sum(part.num_bytes for part in parts),
        max_bytes=None if None in bounds else sum(bound for bound in bounds if bound is not None),
        oldest_s=max(part.oldest_s for part in parts),
        consumer=consumer,
    )
