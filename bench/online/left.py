"""Messages that queues of a fleet still have, whether or not a worker holds them.

It knows how the broker is asked. It does not know what is judged by it.
"""

from collections.abc import Iterator

from headrace import Client
from headrace_contracts import ModelSpec, Priority, connection, subjects

_CONNECT_S = 10.0


async def left(url: str, *classes: Priority) -> int:
    """How many there are in all queues of these classes.

    Args:
        url: Of nats-server.
        classes: That count.

    Raises:
        nats.errors.Error: The broker does not say.
    """
    async with await Client.connect(url) as client:
        specs = await client.models()
    return await kept(url, *(name for spec in specs for priority in classes for name in streams(spec, priority)))


async def kept(url: str, *names: str) -> int:
    """How many there are in NATS streams.

    Args:
        url: Of nats-server.
        names: Of the NATS streams.

    Raises:
        nats.errors.Error: The broker does not say.
    """
    nats, _ = await connection.connect(url, name="bench", inbox="_INBOX.bench", timeout_s=_CONNECT_S)
    try:
        return sum([(await nats.jetstream().stream_info(name)).state.messages for name in names])
    finally:
        await nats.close()


def streams(spec: ModelSpec, priority: Priority) -> Iterator[str]:
    """Names of a model's queues of a class, as NATS streams."""
    if priority == "batch":
        yield subjects.batch_stream(spec.name)
    else:
        yield from (subjects.online_stream(spec.name, *queue) for queue in spec.online_queues)
