"""How many dead letters there are, by model and class.

Knows how the broker counts by subject. Does not read any: dead_letters.py of the client does.
"""

from dataclasses import dataclass
from typing import Any

from headrace_contracts import PRIORITIES, Priority, subjects, topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient


@dataclass(frozen=True, slots=True)
class DeadCount:
    """The dead letters of a model in one class.

    Attributes:
        model: whom they were for.
        priority: online or batch.
        num_letters: that are kept.
    """

    model: str
    priority: Priority
    num_letters: int


async def dead_counts(nats: NatsClient) -> tuple[DeadCount, ...]:
    """Count them; none where no worker has ever been there.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    pattern = f"{subjects.DEAD_ROOT}.>"
    info = await api(nats, f"STREAM.INFO.{topology.DEAD_STREAM}", {"subjects_filter": pattern})
    by_subject: dict[str, Any] = {} if info is None else info["state"].get("subjects") or {}
    found = []
    for subject, count in sorted(by_subject.items()):
        model, _, priority = subject.removeprefix(f"{subjects.DEAD_ROOT}.").partition(".")
        if priority in PRIORITIES:
            found.append(DeadCount(model, priority, count))
    return tuple(found)
