"""How much of a bulk job the broker has, such as in the batch queue: waiting, or in a worker's hands and not acked yet.

Knows how the broker is asked. Does not know what follows from the number.
"""

from headrace_contracts import subjects, topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient


async def num_queued(nats: NatsClient, model: str, subject: str) -> int:
    """Chunks that a model's batch queue has of a subject, which may be a pattern; 0 where there is no such queue.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    return await num_stored(nats, subjects.batch_stream(model), subject)


async def num_stored(nats: NatsClient, stream: str, subject: str) -> int:
    """Messages that a NATS stream has of a subject, which may be a pattern; 0 where there is no such stream.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    info = await api(nats, f"STREAM.INFO.{stream}", {"subjects_filter": subject})
    counts: dict[str, int] = {} if info is None else info["state"].get("subjects") or {}
    return sum(counts.values())


async def drop_done(nats: NatsClient, model: str, subject: str) -> int:
    """Remove chunks that the workers' consumer has done with and the queue has all the same.

    A work queue should have none. A cluster whose server has lost its disk, or what it wrote last, may keep one that it
    will never hand out again; whoever waits for it waits for ever.

    Args:
        nats: the connection.
        model: whose queue it is.
        subject: of the chunks, which may be a pattern.

    Returns:
        How many there were.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    stream = subjects.batch_stream(model)
    consumer = await api(nats, f"CONSUMER.INFO.{stream}.{topology.CONSUMER}")
    if consumer is None:  # workers make a new one, which hands out all
        return 0
    # All up to its floor is acked.
    done = {"filter": subject, "seq": consumer["ack_floor"]["stream_seq"] + 1}
    purged = await api(nats, f"STREAM.PURGE.{stream}", done)
    return 0 if purged is None else int(purged["purged"])
