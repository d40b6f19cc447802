"""What may happen to a bulk job at the wrong moment, in the broker, in another process, in a source or a sink."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from headrace import local
from headrace.bulk import publisher
from headrace.bulk.assembly import Assembly
from headrace.bulk.jobs.record import ShardRecord
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.ledger import Ledger
from headrace.bulk.progress import Progress
from headrace.bulk.results import Results
from headrace.bulk.rows import Rows
from headrace.bulk.sink import Part
from headrace.errors import InputError, JobConflict, JobEnded, JobFailed, SourceError
from headrace.reach import reached
from headrace_contracts import DecodeError
from headrace_engine import Engine
from nats.aio.msg import Msg

from ..producer.bulk.made_up import MadeUp, corpus
from ..waiting import until
from .broker_view import api, connected, num_messages
from .bulk_jobs import MemorySink, run
from .harness import WatchedEngine, brisk, running
from .reindexing import BATCH, RESULTS, assert_broker_is_empty

SMALL_STEPS = {"step_tokens": 512, "max_chunk_tokens": 256}


@pytest.fixture
async def own_fleet(nats_server: local.Server, shallow: Engine) -> AsyncIterator[str]:
    """For jobs that end early: what the worker has in hand then comes late, and is in the way of no other test."""
    async with running(shallow, brisk(nats_server.url)):
        yield nats_server.url


def rows_of(source: MadeUp) -> set[object]:
    return {row_id for shard in source.rows for row_id, _ in shard}


# -- several at once


async def test_many_that_begin_a_new_job_at_once_share_it_however_much_the_first_has_written(
    fleet: str, tmp_path: Path
) -> None:
    source, sink = corpus(100, num_shards=6), MemorySink(tmp_path)

    async def after(seconds: float) -> None:
        await asyncio.sleep(seconds)  # so that the last ones come when the sink has rows
        assert (await run(source, sink, fleet, job="crowd")).written == 600

    await asyncio.gather(*(after(n / 20) for n in range(5)))
    assert sink.rows.keys() == rows_of(source)
    assert len(sink.parts) == len(set(sink.parts))


async def test_many_that_begin_an_ended_job_anew_share_what_has_changed(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(100, num_shards=6), MemorySink(tmp_path)
    await run(source, sink, fleet, job="again")
    for shard in source.rows:
        shard[::10] = [(row_id, f"{text} and more") for row_id, text in shard[::10]]
    sink.parts.clear()
    for summary in await asyncio.gather(*(run(source, sink, fleet, job="again") for _ in range(5))):
        assert (summary.written, summary.unchanged) == (60, 540)
    assert len(sink.parts) == len(set(sink.parts)) == 12


async def test_an_ended_job_that_makes_way_leaves_nothing_behind(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(60, num_shards=2), MemorySink(tmp_path)
    source.rows[0][3] = ("none", "a text that is too long " * 200)
    assert (await run(source, sink, fleet, job="before", truncate=False)).failed == 1
    ledger = Ledger(tmp_path / "before")
    # Another corpus under the name, of one shard less.
    assert (await run(corpus(70), sink, fleet, job="before")).failed == 0
    assert [*ledger.records(0)] == [0, 1]
    assert not ledger.records(1)
    assert not [*ledger.errors()]


async def test_a_shard_that_was_lost_ends_no_more_than_its_own_run(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    source, sink, progress = corpus(200, num_shards=2), MemorySink(tmp_path), Progress()
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url, **SMALL_STEPS)), connected(nats_server.url) as link:
        jobs = Jobs(link)
        working = asyncio.create_task(run(source, sink, nats_server.url, progress=progress, lease_s=1.0))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        ((number, record),) = (await jobs.shards("job")).items()
        assert record.owner is not None
        # As another process would that saw no sign of it, and then ended.
        stolen = replace(record, owner=None, term=record.term + 1)
        while True:
            entry = await jobs.bucket.get(f"job.{number}")
            assert entry is not None
            try:
                await jobs.bucket.put(f"job.{number}", stolen.to_json(), entry)
                break
            except Exception:  # noqa: BLE001, S112 - a beat came in between
                continue
        engine.release()
        assert (await working).written == 400
    assert sink.rows.keys() == rows_of(source)
    await assert_broker_is_empty(nats_server.url)


async def test_a_job_that_was_cancelled_and_taken_up_again_is_not_failed_by_who_heard_of_it_late(
    nats_server: local.Server, shallow: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, engine = corpus(200), WatchedEngine(shallow, held=True)
    bulk = importlib.import_module("headrace.bulk.reindex")._Bulk  # the package has a function of the module's name
    give_up = bulk.give_up

    async def late(self: Any, error: BaseException) -> None:
        await Jobs(self.nats).begin(await Jobs(self.nats).get("job"))
        await give_up(self, error)

    monkeypatch.setattr(bulk, "give_up", late)
    async with running(engine, brisk(nats_server.url)), connected(nats_server.url) as link:
        working = asyncio.create_task(run(source, MemorySink(tmp_path), nats_server.url))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        await Jobs(link).set_state("job", "cancelled", "a mistake")
        with pytest.raises(JobEnded, match=r"job job was cancelled \(a mistake\)"):
            await working
        assert (await Jobs(link).get("job")).state == "running"


# -- what is done to the broker


async def test_a_job_whose_bucket_is_deleted_ends_with_the_reason_and_begins_anew_where_it_was(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    source, sink, progress = corpus(400), MemorySink(tmp_path), Progress()
    async with running(minilm, brisk(nats_server.url, **SMALL_STEPS)), connected(nats_server.url) as link:
        working = asyncio.create_task(run(source, sink, nats_server.url, progress=progress))
        await until(lambda: progress.rows_done > 0, "it is under way")
        await api(link, "STREAM.DELETE.KV_hr_jobs")
        with pytest.raises(JobConflict, match="begin it anew"):
            await working
        assert (await run(source, sink, nats_server.url)).rows == 400
    assert sink.rows.keys() == rows_of(source)
    # What was written down beside the sink was not done again.
    assert len(sink.parts) == len(set(sink.parts))
    await assert_broker_is_empty(nats_server.url)


async def test_results_that_somebody_purges_are_made_again(
    nats_server: local.Server, shallow: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.bulk.stalled._LOOK_S", 0.2)
    source, sink = corpus(300), MemorySink(tmp_path)
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url, **SMALL_STEPS)), connected(nats_server.url) as link:
        doomed = asyncio.create_task(run(source, sink, nats_server.url))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        for name in (await api(link, f"CONSUMER.NAMES.{RESULTS}"))["consumers"]:
            await api(link, f"CONSUMER.DELETE.{RESULTS}.{name}")
        engine.permit(3)
        await api(link, f"STREAM.PURGE.{RESULTS}")
        engine.release()
        assert (await doomed).written == 300
    await assert_broker_is_empty(nats_server.url)


async def test_chunks_that_were_stored_while_their_ack_got_lost_run_once(
    nats_server: local.Server, shallow: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_ACK_TIMEOUT_S", 0.3)
    lost: list[Msg] = []
    on_ack = publisher.Publisher._on_ack

    async def forgetful(self: publisher.Publisher, message: Msg) -> None:
        if len(lost) < 3:
            lost.append(message)
        else:
            await on_ack(self, message)

    monkeypatch.setattr(publisher.Publisher, "_on_ack", forgetful)
    source, sink = corpus(200), MemorySink(tmp_path)
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url, **SMALL_STEPS)) as worker, connected(nats_server.url) as link:
        working = asyncio.create_task(run(source, sink, nats_server.url))
        await until(lambda: len(lost) == 3, "acks got lost")
        async with asyncio.timeout(20):
            while await num_messages(link, BATCH) == 0:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.01)
        engine.release()
        summary = await working
        assert summary.written == 200
        # What runs twice is counted once in the job's tally, and twice by the worker.
        assert summary.tokens == worker.counters.tokens
    await assert_broker_is_empty(nats_server.url)


async def test_a_queue_that_holds_less_than_a_chunk_fails_the_job(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as link:
        limits = (await api(link, f"STREAM.INFO.{BATCH}"))["config"]
        await api(link, f"STREAM.UPDATE.{BATCH}", {**limits, "max_bytes": 1024})
        with pytest.raises(JobFailed, match=f"the queue {BATCH} holds 1,024 bytes, and a chunk has"):
            await run(corpus(200), MemorySink(tmp_path), nats_server.url)


async def test_results_that_cannot_hold_a_window_are_refused_with_the_window_that_fits(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as link:
        limits = (await api(link, f"STREAM.INFO.{RESULTS}"))["config"]
        await api(link, f"STREAM.UPDATE.{RESULTS}", {**limits, "max_bytes": 70_000})
        with pytest.raises(InputError, match=r"begin with --window-rows 22"):
            await run(corpus(200), MemorySink(tmp_path), nats_server.url)


async def test_refusals_of_an_earlier_run_do_not_end_a_later_one(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    source, sink = corpus(400), MemorySink(tmp_path)
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        working = asyncio.create_task(run(source, sink, nats_server.url))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        right = worker.worker.spec
        worker.worker.spec = replace(right, fingerprint="0" * 32)
        engine.release()
        with pytest.raises(JobFailed, match="another revision"):
            await working
        worker.worker.spec = right
        assert (await run(source, sink, nats_server.url)).written == 400
    await assert_broker_is_empty(nats_server.url)


async def test_each_shard_gives_its_subscription_back(nats_server: local.Server, minilm: Engine) -> None:
    async with (
        running(minilm, brisk(nats_server.url)),
        reached(nats_server.url, name="test", client_id="test", timeout_s=5) as (link, up),
    ):
        await num_messages(link, RESULTS)  # from now on nats-py has one for the answers to all requests
        before = len(link._subs)
        for shard in range(3):
            pulling = asyncio.create_task(Results(link, up, "job", shard).run(lambda _: True))
            await until(lambda: len(link._subs) > before, "it has subscribed")
            pulling.cancel()
            await asyncio.wait([pulling])
            assert len(link._subs) == before


async def test_a_bucket_that_lags_behind_costs_the_sink_no_part(
    fleet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink, shards = corpus(120, num_shards=3), MemorySink(tmp_path), Jobs.shards

    async def lagging(self: Jobs, name: str) -> dict[int, ShardRecord]:
        found = await shards(self, name)
        lags = len(lagged) < 3 and len(found) == 3 and all(each.checkpoint.is_done for each in found.values())
        if lags:
            lagged.append(found.popitem())
        return found

    lagged: list[object] = []
    monkeypatch.setattr(Jobs, "shards", lagging)
    await run(source, sink, fleet, job="lag")
    assert len(lagged) == 3
    assert sink.finished == [sorted(sink.parts)]


async def test_results_that_nobody_can_read_fail_the_job(
    nats_server: local.Server, shallow: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.bulk.stalled._LOOK_S", 0.05)
    source, sink = corpus(100), MemorySink(tmp_path)
    async with running(shallow, brisk(nats_server.url)):
        with monkeypatch.context() as patch:
            patch.setattr("headrace.bulk.shard_run.decode_reply", _unreadable)
            with pytest.raises(JobFailed, match="results of the fleet cannot be read: v is 9"):
                await run(source, sink, nats_server.url)
        assert (await run(source, sink, nats_server.url)).written == 100


def _unreadable(_: bytes) -> None:
    raise DecodeError("v is 9")


# -- what sources, sinks and bugs do


class Torn(MadeUp):
    """Cannot be read beyond a row."""

    end = 120

    def read(self, shard: int, first: int) -> Iterator[Rows]:
        for rows in super().read(shard, first):
            yield rows
            if rows.first + len(rows) >= self.end:
                raise SourceError("the disk is gone")


async def test_a_source_that_fails_in_the_middle_ends_the_job_and_gives_its_shard_back(
    own_fleet: str, tmp_path: Path
) -> None:
    whole, sink = corpus(200, rows_at_a_time=20), MemorySink(tmp_path)
    torn = Torn(*whole.rows, rows_at_a_time=20)
    with pytest.raises(SourceError, match="the disk is gone"):
        await run(torn, sink, own_fleet, job="torn")
    async with connected(own_fleet) as link:
        jobs = Jobs(link)
        assert (await jobs.get("torn")).state == "running"
        assert [shard.owner for shard in (await jobs.shards("torn")).values()] == [None]
    assert (await run(whole, sink, own_fleet, job="torn")).rows == 200
    assert sink.rows.keys() == rows_of(whole)
    await assert_broker_is_empty(own_fleet)


class Buggy(MemorySink):
    """Raises what no sink should."""

    def write(self, part: Part) -> None:
        if self.fails:
            self.fails -= 1
            raise ZeroDivisionError("a bug of a sink")
        super().write(part)


async def test_a_bug_in_a_sink_is_raised_as_it_is_and_the_same_command_goes_on(own_fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(200, num_shards=2), Buggy(tmp_path)
    sink.fails = 1
    with pytest.raises(ZeroDivisionError, match="a bug of a sink") as raised:
        await run(source, sink, own_fleet, job="bug")
    assert any(entry.name == "write" for entry in raised.traceback), "the traceback says where"
    assert (await run(source, sink, own_fleet, job="bug")).rows == 400
    assert sink.rows.keys() == rows_of(source)


async def test_a_bug_in_taking_a_result_ends_the_job_rather_than_have_it_wait(
    own_fleet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = corpus(100), MemorySink(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Assembly, "take", partial(_fail))
        with pytest.raises(ZeroDivisionError, match="a bug of ours"):
            await run(source, sink, own_fleet, job="taken")
    assert (await run(source, sink, own_fleet, job="taken")).written == 100


def _fail(*_: object) -> None:
    raise ZeroDivisionError("a bug of ours")
