"""Messages that a nats-server passes on though no client library would write them."""

import asyncio

import pytest
from headrace import local
from headrace_contracts.connection import connect
from nats.aio.msg import Msg

from ..raw_nats import frame, publish

SUBJECT = b"hr.test.a"


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
