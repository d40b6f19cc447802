"""How much of a bulk job is in the batch queue: waiting, or in a worker's hands and not acked yet.

Knows how the broker is asked. Does not know what follows from the number.
"""

from headrace_contracts import subjects
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient


async def num_queued(nats: NatsClient, model: str, subject: str) -> int:
    """Chunks that a model's batch queue has of a subject, which may be a pattern; 0 where there is no such queue.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    info = await api(nats, f"STREAM.INFO.{subjects.batch_stream(model)}", {"subjects_filter": subject})
    counts: dict[str, int] = {} if info is None else info["state"].get("subjects") or {}
    return sum(counts.values())
