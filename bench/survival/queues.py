"""What queues of a model still have, once nobody fills them any more.

It knows that a queue may keep what its consumer has done with, and that only leaders know. It does not know what is
judged by it.
"""

from dataclasses import dataclass

from headrace import Client
from headrace_contracts import PRIORITIES, connection, topology
from headrace_contracts.api import api
from nats.errors import Error as NatsError
from online.left import streams

_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Left:
    """Messages.

    Attributes:
        to_come: That wait, or that a worker has in hand.
        kept: That are acked, and there all the same: of a cluster whose server came back with an older disk.
    """

    to_come: int
    kept: int


async def left(url: str, model: str) -> Left:
    """What there is in all queues of a model.

    Args:
        url: Of nats-servers.
        model: Its served name.

    Raises:
        nats.errors.Error: The broker does not say.
        HeadraceError: Likewise.
    """
    async with await Client.connect(url) as client:
        (spec,) = [spec for spec in await client.models() if spec.name == model]
    names = [name for priority in PRIORITIES for name in streams(spec, priority)]
    nats, _ = await connection.connect(url, name="bench", inbox="_INBOX.bench", timeout_s=_CONNECT_S)
    to_come = kept = 0
    try:
        for name in names:
            stream = await api(nats, f"STREAM.INFO.{name}")
            consumer = await api(nats, f"CONSUMER.INFO.{name}.{topology.CONSUMER}")
            if stream is None or consumer is None:
                raise NatsError(f"there is no {name}")
            live = consumer["num_pending"] + consumer["num_ack_pending"]
            to_come += live
            kept += max(0, stream["state"]["messages"] - live)
    finally:
        await nats.close()
    return Left(to_come, kept)
