"""An object of a JetStream object store (ADR-20 of NATS), read message by message.

Knows how an object lies in its NATS stream. nats-py reads by a consumer; but who may create one may name any subject
for the server to send to, and a client that only embeds should not have that right. Does not know what objects hold.
"""

from nats.js import JetStreamContext
from nats.js.errors import NotFoundError


async def read_object(jetstream: JetStreamContext, bucket: str, name: str) -> bytes:
    """What was put under the name.

    Raises:
        NotFoundError: there is no such bucket or object, or it was removed meanwhile.
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    info = await (await jetstream.object_store(bucket)).get_info(name)
    stream, chunks, sequence = f"OBJ_{bucket}", f"$O.{bucket}.C.{info.nuid}", 1
    parts: list[bytes] = []
    size = info.size or 0
    while sum(map(len, parts)) < size:
        message = await jetstream.get_msg(stream, seq=sequence, subject=chunks, next=True)
        if not message.data or message.seq is None:
            raise NotFoundError
        parts.append(message.data)
        sequence = message.seq + 1
    return b"".join(parts)
