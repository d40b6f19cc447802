"""A wiretap that finds nothing is worth what it would have found: replies are sent astray, and must be named."""

from collections.abc import AsyncIterator

import numpy as np
import pytest
from headrace import local
from headrace_contracts import Chunk, Envelope, ErrorCode, ErrorReply, encode_chunk, encode_reply
from nats.aio.client import Client as NatsClient
from survival.wiretap import Wiretap, tapped

from ..fleet.broker_view import connected
from ..waiting import until


@pytest.fixture
async def tap(nats_server: local.Server) -> AsyncIterator[Wiretap]:
    async with tapped(nats_server.url) as tap:
        yield tap


@pytest.fixture
async def connection(nats_server: local.Server) -> AsyncIterator[NatsClient]:
    async with connected(nats_server.url) as connection:
        yield connection


async def ask(connection: NatsClient, name: str, inbox: str) -> None:
    one = np.ones(1, np.uint32)
    chunk = Chunk(id=name, task="embed", model="m", fingerprint="0" * 64, lengths=one, token_ids=one)
    headers = Envelope(reply_to=inbox, tokens=1).to_headers()
    await connection.publish("hr.online.m.0.0", encode_chunk(chunk), headers=headers)


async def answer(connection: NatsClient, name: str, inbox: str) -> None:
    await connection.publish(inbox, encode_reply(ErrorReply(id=name, code=ErrorCode.EXPIRED, text="", worker="w")))


async def test_replies_to_their_own_inboxes_are_good(tap: Wiretap, connection: NatsClient) -> None:
    for number in range(10):
        await ask(connection, f"chunk-{number}", f"hr.inbox.client.c.{number}.r")
    for number in range(10):
        await answer(connection, f"chunk-{number}", f"hr.inbox.client.c.{number}.r")
    await until(lambda: tap.num_judged == 10, "all are heard")
    assert tap.violations() == []


async def test_a_reply_to_the_inbox_of_another_call_is_named(tap: Wiretap, connection: NatsClient) -> None:
    await ask(connection, "mine", "hr.inbox.client.c.1.r")
    await ask(connection, "yours", "hr.inbox.client.c.2.r")
    await answer(connection, "mine", "hr.inbox.client.c.2.r")
    await until(lambda: tap.num_replies == 1, "it is heard")
    (violation,) = tap.violations()
    assert violation == "a reply to chunk mine went to hr.inbox.client.c.2, and not to hr.inbox.client.c.1"


async def test_what_was_half_heard_is_not_judged(tap: Wiretap, connection: NatsClient) -> None:
    await answer(connection, "of-before", "hr.inbox.client.c.1.r")
    await ask(connection, "not-answered", "hr.inbox.client.c.2.r")
    # The reply to a copy that went to another shard, which was missed.
    await ask(connection, "hedged", "hr.inbox.client.c.3.r")
    await answer(connection, "hedged", "hr.inbox.client.c.3.h")
    await connection.publish("hr.inbox.client.c.4.a", b'{"stream":"S","seq":1}')
    await connection.publish("hr.online.m.0.0", b"noise")
    await until(lambda: (tap.num_chunks, tap.num_replies) == (2, 2), "they are heard")
    assert tap.num_judged == 1
    assert tap.violations() == []


async def test_a_reply_may_be_heard_before_its_chunk(tap: Wiretap, connection: NatsClient) -> None:
    await answer(connection, "late", "hr.inbox.client.c.1.r")
    await ask(connection, "late", "hr.inbox.client.c.1.r")
    await until(lambda: tap.num_judged == 1, "both are heard")
    assert tap.violations() == []
