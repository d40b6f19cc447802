"""Jobs in the KV bucket of a real nats-server, which may be away for a while."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from headrace import local
from headrace.bulk.cut import Span, Spans
from headrace.bulk.jobs.bucket import Moved
from headrace.bulk.jobs.claim import Claims
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import Checkpoint, JobRecord, State, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.errors import BulkError, ConnectionFailed, InputError, JobConflict

from ...fleet.broker_view import api
from ...waiting import until
from .broker import broker, connections
from .job_records import job

FINISHED: list[State] = ["done", "failed", "cancelled"]


@pytest.fixture
async def two(nats_server: local.Server) -> AsyncIterator[tuple[Jobs, Jobs]]:
    """The jobs of one server, as two processes see them."""
    async with connections(nats_server.url, 2) as (one, other):
        yield Jobs(one), Jobs(other)


@pytest.fixture
def jobs(two: tuple[Jobs, Jobs]) -> Jobs:
    return two[0]


async def test_before_anybody_began_a_job_there_are_none(jobs: Jobs) -> None:
    assert await jobs.list() == []
    with pytest.raises(InputError, match="there is no job 'nightly': `headrace job ls`"):
        await jobs.get("nightly")
    with pytest.raises(InputError, match="there is no job 'nightly'"):
        await jobs.shards("nightly")
    with pytest.raises(InputError, match="there is no job 'nightly'"):
        await jobs.forget("nightly")
    with pytest.raises(InputError, match="there is no job 'nightly'"):
        await jobs.set_state("nightly", "paused")


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "ä", "x" * 65, "a\n"])
async def test_a_name_that_no_job_can_have_is_refused(jobs: Jobs, name: str) -> None:
    for call in (jobs.begin(job(name=name)), jobs.get(name), jobs.shards(name), jobs.forget(name)):
        with pytest.raises(InputError, match="will not do: use 1 to 64"):
            await call


async def test_a_job_that_was_begun_is_listed(jobs: Jobs) -> None:
    assert await jobs.begin(job()) == job()
    await jobs.begin(job(name="Annual-1"))
    assert await jobs.get("nightly") == job()
    assert [record.name for record in await jobs.list()] == ["Annual-1", "nightly"]


async def test_many_processes_that_begin_one_job_at_once_have_the_same(nats_server: local.Server) -> None:
    async with connections(nats_server.url, 8) as all_:
        records = [job(created_ms=number) for number in range(8)]
        begun = await asyncio.gather(
            *(Jobs(nats).begin(record) for nats, record in zip(all_, records, strict=True)),
        )
        assert len({record.created_ms for record in begun}) == 1


async def test_another_job_of_the_same_name_is_refused_and_left_alone(two: tuple[Jobs, Jobs]) -> None:
    await two[0].begin(job())
    with pytest.raises(JobConflict, match=r"corpus is 'c0ffee', this command has 'other'.*job cancel nightly"):
        await two[1].begin(job(corpus="other"))
    assert await two[0].get("nightly") == job()


@pytest.mark.parametrize("state", FINISHED)
async def test_a_job_that_has_ended_runs_again_when_it_is_begun_again(jobs: Jobs, state: State) -> None:
    await jobs.begin(job())
    await jobs.set_state("nightly", state, "because")
    found = await jobs.begin(job(created_ms=5))
    assert (found.state, found.reason, found.created_ms) == ("running", None, job().created_ms)
    assert await jobs.get("nightly") == found


async def test_a_job_that_is_paused_stays_so_for_who_joins_it(jobs: Jobs) -> None:
    await jobs.begin(job())
    paused = await jobs.set_state("nightly", "paused", "the fleet is needed")
    assert await jobs.begin(job()) == paused


@pytest.mark.parametrize("state", FINISHED)
async def test_a_job_that_has_ended_cannot_be_paused_or_ended_otherwise(jobs: Jobs, state: State) -> None:
    await jobs.begin(job())
    ended = await jobs.set_state("nightly", state)
    assert await jobs.set_state("nightly", state) == ended
    others: list[State] = ["paused", "running", *({*FINISHED} - {state})]
    for other in others:
        with pytest.raises(JobConflict, match=f"is {state} and cannot become {other}: to run it again, repeat"):
            await jobs.set_state("nightly", other)


async def test_of_two_who_end_a_job_at_once_one_wins_and_the_other_is_told(two: tuple[Jobs, Jobs]) -> None:
    await two[0].begin(job())
    ends = await asyncio.gather(
        two[0].set_state("nightly", "done"), two[1].set_state("nightly", "cancelled"), return_exceptions=True
    )
    (won,) = [end for end in ends if isinstance(end, JobRecord)]
    (lost,) = [end for end in ends if isinstance(end, BaseException)]
    assert isinstance(lost, JobConflict)
    assert await two[0].get("nightly") == won


async def test_a_watch_sees_each_change_of_state(two: tuple[Jobs, Jobs]) -> None:
    await two[0].begin(job())
    async with two[0].watch("nightly") as watch:
        assert watch.record == job()
        for state in ("paused", "running", "paused", "cancelled"):
            await two[1].set_state("nightly", state)
            await watch.changed()
            assert watch.record.state == state


async def test_a_watch_tells_nothing_while_nothing_changes(two: tuple[Jobs, Jobs]) -> None:
    await two[0].begin(job())
    async with two[0].watch("nightly") as watch:
        waiting = asyncio.create_task(watch.changed())
        await two[1].set_state("nightly", "running")
        await two[1].begin(job(name="another"))
        await two[1].set_state("another", "done")
        # What is known of the other job was published later than anything of this one.
        async with two[0].watch("another"):
            assert not waiting.done()
        waiting.cancel()


async def test_a_job_that_was_removed_reads_as_cancelled_to_who_works_on_it(two: tuple[Jobs, Jobs]) -> None:
    await two[0].begin(job())
    async with two[0].watch("nightly") as watch:
        await two[1].forget("nightly")
        await watch.changed()
        assert (watch.record.state, watch.record.reason) == ("cancelled", "the job was removed with `headrace job rm`")
        await two[1].begin(job(created_ms=9))
        assert watch.record.state == "cancelled"
    assert (await two[0].get("nightly")).created_ms == 9


async def test_nothing_of_a_removed_job_is_left_to_the_next_one_of_its_name(two: tuple[Jobs, Jobs]) -> None:
    jobs, other = two
    await jobs.begin(job())
    claim = await Claims(jobs, "nightly", 3, this_process()).next()
    assert claim is not None
    await claim.save(Checkpoint(Spans((Span(0, 9, 0, 99),)), Tally(rows=99)))
    assert (await other.shards("nightly"))[claim.shard].checkpoint.tally.rows == 99
    # As if a process had written its shard just after the job was removed.
    left = await jobs.bucket.get(f"nightly.{claim.shard}")
    await other.forget("nightly")
    assert left is not None
    await jobs.bucket.put(f"nightly.{claim.shard}", left.value, None)
    await other.begin(job(created_ms=9, corpus="another"))
    assert await other.shards("nightly") == {}
    again = await Claims(other, "nightly", 1 + claim.shard, this_process()).next()
    assert again is not None
    assert again.checkpoint == Checkpoint()


async def test_a_record_that_cannot_be_read_hides_no_other_and_can_be_removed(jobs: Jobs) -> None:
    await jobs.begin(job())
    await jobs.bucket.put("broken", b"{", None)
    assert [record.name for record in await jobs.list()] == ["nightly"]
    for call in (jobs.get("broken"), jobs.begin(job(name="broken")), jobs.set_state("broken", "paused")):
        with pytest.raises(JobConflict, match="cannot be read"):
            await call
    await jobs.forget("broken")
    assert await jobs.begin(job(name="broken")) == job(name="broken")


async def test_a_window_that_is_not_done_after_all_is_done_again(jobs: Jobs) -> None:
    await jobs.begin(job(num_shards=1))
    claim = await Claims(jobs, "nightly", 1, this_process()).next()
    assert claim is not None
    await claim.save(Checkpoint(Spans((Span(0, 3, 0, 30),)), Tally(rows=30, written=30), is_done=True))
    for _ in range(2):
        await jobs.reopen("nightly", 0, Span(1, 2, 10, 20), Tally(rows=10, written=10))
    wanted = Checkpoint(Spans((Span(0, 1, 0, 10), Span(2, 3, 20, 30))), Tally(rows=20, written=20))
    record = (await jobs.shards("nightly"))[0]
    assert (record.owner, record.checkpoint) == (None, wanted)
    with pytest.raises(JobConflict, match="taken over"):
        await claim.save(Checkpoint())
    again = await Claims(jobs, "nightly", 1, this_process()).next()
    assert again is not None
    assert again.checkpoint == wanted


async def test_a_window_of_a_shard_that_nobody_has_begun_needs_no_reopening(jobs: Jobs) -> None:
    await jobs.begin(job())
    await jobs.reopen("nightly", 0, Span(0, 1, 0, 10))
    assert await jobs.shards("nightly") == {}


async def test_a_bucket_that_an_operator_made_is_taken_as_it_is(jobs: Jobs) -> None:
    # With a history, and without times to live.
    await api(
        jobs.nats,
        "STREAM.CREATE.KV_hr_jobs",
        {
            "name": "KV_hr_jobs",
            "subjects": ["$KV.hr_jobs.>"],
            "max_msgs_per_subject": 7,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
        },
    )
    await jobs.begin(job())
    await jobs.set_state("nightly", "paused")
    await jobs.set_state("nightly", "done")
    assert [record.state for record in await jobs.list()] == ["done"]
    await jobs.forget("nightly")
    assert await jobs.list() == []


async def test_what_was_written_when_its_answer_got_lost_is_no_conflict(jobs: Jobs) -> None:
    """As nats-py has it: the request timed out, and the write is there all the same."""
    await jobs.begin(job())
    put, calls = jobs.bucket.put, 0

    async def put_twice(key: str, value: bytes, last: object) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            await put(key, value, last)  # type: ignore[arg-type] # passed on as it came
            raise Moved(key)
        return await put(key, value, last)  # type: ignore[arg-type] # passed on as it came

    jobs.bucket.put = put_twice  # type: ignore[method-assign] # the answer that got lost
    assert (await jobs.set_state("nightly", "paused", "why")).reason == "why"
    assert calls == 1


async def test_all_of_it_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    async with broker(tmp_path) as server, connections(server.url, 1) as (nats,):
        jobs = Jobs(nats)
        await jobs.begin(job())
        async with jobs.watch("nightly") as watch:
            await server.kill()
            await until(lambda: not nats.is_connected, "the loss is seen")
            calls = [
                asyncio.create_task(jobs.set_state("nightly", "paused")),
                asyncio.create_task(jobs.list()),
                asyncio.create_task(jobs.shards("nightly")),
                asyncio.create_task(jobs.begin(job(name="another"))),
            ]
            changed = asyncio.create_task(watch.changed())
            await asyncio.sleep(0.3)
            assert not any(call.done() for call in (*calls, changed))
            await server.start()
            async with asyncio.timeout(30):
                await asyncio.gather(*calls)
                await changed
            assert watch.record.state == "paused"
        assert [record.name for record in await jobs.list()] == ["another", "nightly"]


async def test_a_change_made_while_the_watch_was_cut_off_is_seen_later(tmp_path: Path) -> None:
    async with broker(tmp_path) as server, connections(server.url, 1) as (nats,):
        jobs = Jobs(nats)
        await jobs.begin(job())
        async with jobs.watch("nightly") as watch:
            for state in ("paused", "running"):
                await server.stop()
                await server.start()
                async with connections(server.url, 1) as (fresh,):
                    await Jobs(fresh).set_state("nightly", state)
                async with asyncio.timeout(30):
                    await watch.changed()
                assert watch.record.state == state


async def test_who_tires_of_waiting_can_be_cancelled(tmp_path: Path) -> None:
    async with broker(tmp_path) as server, connections(server.url, 1) as (nats,):
        jobs = Jobs(nats)
        await jobs.begin(job())
        await server.stop()
        await until(lambda: not nats.is_connected, "the loss is seen")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await jobs.set_state("nightly", "paused")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), jobs.watch("nightly"):
                pytest.fail("there is nobody to answer")


async def test_closing_the_connection_ends_all_waits(jobs: Jobs) -> None:
    await jobs.begin(job())

    async def watch() -> None:
        async with jobs.watch("nightly") as watch:
            await watch.changed()

    watching = asyncio.create_task(watch())
    await jobs.get("nightly")
    await jobs.nats.close()
    with pytest.raises(ConnectionFailed, match="the connection to nats-server was closed"):
        await jobs.get("nightly")
    async with asyncio.timeout(20):
        with pytest.raises(ConnectionFailed, match="the connection to nats-server was closed"):
            await watching


async def test_a_record_that_is_too_large_for_the_server_is_refused_at_once(jobs: Jobs) -> None:
    with pytest.raises(BulkError, match="nats-server refuses"):
        await jobs.begin(job(source="x" * 2_000_000))


async def test_a_bucket_that_was_deleted_meanwhile_holds_no_jobs(jobs: Jobs) -> None:
    await jobs.begin(job())
    await jobs.nats.jetstream().delete_key_value("hr_jobs")
    assert await jobs.list() == []
    with pytest.raises(InputError, match="there is no job"):
        await jobs.get("nightly")
    assert await jobs.begin(job()) == job()
