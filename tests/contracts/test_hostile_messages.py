"""Messages that a nats-server passes on though no client library would write them."""

import asyncio

import pytest
from headrace import local
from headrace_contracts.connection import connect
from nats.aio.msg import Msg

SUBJECT = b"hr.test.a"


async def publish(server: local.Server, *frames: bytes) -> None:
    """Say to the server, byte by byte, what it is to pass on; returns once it has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()  # INFO
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n' + b"".join(frames) + b"PING\r\n")
    assert await reader.readline() == b"PONG\r\n"
    writer.close()
    await writer.wait_closed()


def frame(subject: bytes, headers: bytes, body: bytes) -> bytes:
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(headers), len(headers) + len(body), headers, body)


@pytest.mark.parametrize(
    ("subject", "headers"),
    [
        (b"hr.test.\xff", b""),
        (b"hr.test.\xc3\xa9", b""),
        (SUBJECT, b"x"),
        (SUBJECT, b"NATS/1.0"),
        (SUBJECT, b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
        (SUBJECT, b"NATS/1.0 404 \xff\r\n\r\n"),
        (SUBJECT, b"NATS/1.0\r\nHr-Reply: \xff\r\n\xff: a\r\n\r\n"),
    ],
)
async def test_no_message_that_a_server_passes_on_keeps_the_next_from_being_heard(
    nats_server: local.Server, subject: bytes, headers: bytes
) -> None:
    nats, _ = await connect(nats_server.url, name="test", inbox="hr.inbox.test", timeout_s=5)
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    await nats.subscribe("hr.test.*", cb=arrived.put)
    await nats.flush()
    await publish(nats_server, frame(subject, headers, b"odd"), frame(SUBJECT, b"", b"next"))
    async with asyncio.timeout(20):
        assert [(await arrived.get()).data for _ in range(2)] == [b"odd", b"next"]
    await nats.close()
