"""Shards and the processes that work on them: each shard has one at a time, and none is left without for ever."""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from headrace import local
from headrace.bulk.cut import Span, Spans
from headrace.bulk.jobs.claim import Claim, Claims
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import Checkpoint, JobRecord, Owner, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.jobs.watch import Watch
from headrace.errors import JobConflict
from nats.aio.client import Client as NatsClient

from ...waiting import until
from .broker import broker, connections
from .job_records import job

DONE = Checkpoint(Spans((Span(0, 1, 0, 10),)), Tally(rows=10, written=10), is_done=True)
# Long enough for a machine under load to renew in time, short enough to wait for.
LEASE_S = 2.0


def claims(nats: NatsClient, num_shards: int, owner: Owner | None = None, lease_s: float = LEASE_S) -> Claims:
    return Claims(Jobs(nats), "nightly", num_shards, owner or this_process(), lease_s)


async def claimed(from_: Claims) -> Claim:
    claim = await from_.next()
    assert claim is not None
    return claim


async def killed_owner() -> Owner:
    """A process of this machine that was."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [
            *(sys.executable, "-c"),
            "from headrace.bulk.jobs.process import this_process as p; o = p(); print(o.process, o.pid, o.started)",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    process, pid, started = ended.stdout.split()
    return replace(this_process(), process=process, pid=int(pid), started=int(started))


@pytest.fixture
async def two(nats_server: local.Server) -> AsyncIterator[tuple[NatsClient, NatsClient]]:
    """The connections of two processes to a server that has a job of three shards."""
    async with connections(nats_server.url, 2) as (one, other):
        await Jobs(one).begin(job())
        yield one, other


async def test_each_shard_is_claimed_once_and_when_all_are_done_there_is_none(
    two: tuple[NatsClient, NatsClient],
) -> None:
    mine = claims(two[0], 3)
    found = [await claimed(mine) for _ in range(3)]
    assert {claim.shard for claim in found} == {0, 1, 2}
    assert all(claim.checkpoint == Checkpoint() for claim in found)
    for claim in found:
        await claim.save(DONE)
        await claim.release()
    assert await mine.next() is None
    assert await claims(two[1], 3).next() is None


async def test_many_processes_that_claim_at_once_take_none_from_each_other(nats_server: local.Server) -> None:
    async with connections(nats_server.url, 5) as all_, asyncio.timeout(20):
        for attempt in range(10):
            name = f"job-{attempt}"
            await Jobs(all_[0]).begin(job(name=name, num_shards=15))
            found = [Claims(Jobs(nats), name, 15, this_process(), 60) for nats in all_]

            async def three(mine: Claims) -> list[Claim]:
                return [await claimed(mine) for _ in range(3)]

            taken = [claim for some in await asyncio.gather(*map(three, found)) for claim in some]
            assert sorted(claim.shard for claim in taken) == [*range(15)]


async def test_a_job_without_shards_is_done(two: tuple[NatsClient, NatsClient]) -> None:
    assert await claims(two[0], 0).next() is None


async def test_processes_begin_with_different_shards(two: tuple[NatsClient, NatsClient]) -> None:
    firsts = {claims(two[0], 100, replace(this_process(), process=str(n)))._order[0] for n in range(20)}
    assert len(firsts) > 10


async def test_who_finds_all_claimed_waits_until_one_is_released_and_goes_on_where_it_stood(
    two: tuple[NatsClient, NatsClient],
) -> None:
    mine = claims(two[0], 1, lease_s=60)
    claim = await claimed(mine)
    waiting = asyncio.create_task(claimed(claims(two[1], 1, lease_s=60)))
    point = Checkpoint(Spans((Span(0, 2, 0, 20),)), Tally(rows=20, unchanged=20))
    await claim.save(point)
    assert not waiting.done()
    await claim.release()
    async with asyncio.timeout(5):
        assert (await waiting).checkpoint == point


async def test_who_waits_learns_that_the_others_have_done_the_rest(two: tuple[NatsClient, NatsClient]) -> None:
    claim = await claimed(claims(two[0], 1, lease_s=60))
    waiting = asyncio.create_task(claims(two[1], 1, lease_s=60).next())
    await claim.save(DONE)
    async with asyncio.timeout(5):
        assert await waiting is None


async def test_what_somebody_has_begun_comes_first(two: tuple[NatsClient, NatsClient]) -> None:
    for owner in ("a", "b", "c", "d"):
        begun = await claimed(claims(two[0], 50, replace(this_process(), process=owner)))
        await begun.release()
        again = await claimed(claims(two[1], 50))
        assert again.shard == begun.shard
        await again.save(DONE)


async def test_a_lease_that_is_kept_is_kept(two: tuple[NatsClient, NatsClient]) -> None:
    claim = await claimed(claims(two[0], 1))
    keeping = asyncio.create_task(claim.keep())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.5 * LEASE_S):
            await claims(two[1], 1).next()
    assert not keeping.done()
    keeping.cancel()


async def test_the_shard_of_a_process_that_shows_no_sign_is_taken_over_and_it_writes_nothing_more(
    two: tuple[NatsClient, NatsClient],
) -> None:
    lost = await claimed(claims(two[0], 1))
    point = Checkpoint(Spans((Span(0, 2, 0, 20),)), Tally(rows=20))
    await lost.save(point)
    async with asyncio.timeout(5 * LEASE_S):
        taken = await claimed(claims(two[1], 1))
    assert taken.checkpoint == point
    with pytest.raises(JobConflict, match=r"shard 0 was taken over by another process.*nothing is lost"):
        await lost.save(DONE)
    with pytest.raises(JobConflict, match="shard 0 was taken over"):
        await lost.keep()
    await lost.release()
    assert (await Jobs(two[0]).shards("nightly"))[0].checkpoint == point
    await taken.save(DONE)


async def test_keeping_tells_at_once_that_the_shard_was_lost(two: tuple[NatsClient, NatsClient]) -> None:
    claim = await claimed(claims(two[0], 1))
    keeping = asyncio.create_task(claim.keep())
    await Jobs(two[1]).reopen("nightly", 0, Span(0, 1, 0, 10))  # not done: changes nothing
    await claim.save(DONE)
    await Jobs(two[1]).reopen("nightly", 0, Span(0, 1, 0, 10))
    async with asyncio.timeout(5 * LEASE_S):
        with pytest.raises(JobConflict, match="taken over"):
            await keeping


async def test_the_shard_of_a_process_of_this_machine_that_was_killed_is_free_at_once(
    two: tuple[NatsClient, NatsClient],
) -> None:
    await claimed(claims(two[0], 1, await killed_owner(), lease_s=3600))
    async with asyncio.timeout(10):
        await claimed(claims(two[1], 1, lease_s=3600))


async def test_a_process_that_claims_its_own_shard_again_does_not_mix_up_the_two(
    two: tuple[NatsClient, NatsClient],
) -> None:
    me = this_process()
    first = await claimed(claims(two[0], 1, me))
    await first.release()
    second = await claimed(claims(two[0], 1, me))
    with pytest.raises(JobConflict, match="taken over"):
        await first.save(DONE)
    await second.save(DONE)


async def test_a_save_whose_answer_got_lost_is_no_loss_of_the_shard(two: tuple[NatsClient, NatsClient]) -> None:
    claim = await claimed(claims(two[0], 1))
    # As if the caller had been cancelled, or the answer had got lost, after the broker had written it.
    before = claim._revision
    await claim.save(Checkpoint(tally=Tally(rows=1)))
    claim._revision = before
    await claim.save(Checkpoint(tally=Tally(rows=2)))
    assert (await Jobs(two[0]).shards("nightly"))[0].checkpoint.tally.rows == 2


async def test_keeping_and_saving_at_once_do_not_get_in_each_others_way(two: tuple[NatsClient, NatsClient]) -> None:
    claim = await claimed(claims(two[0], 1, lease_s=0.01))
    keeping = asyncio.create_task(claim.keep())
    await asyncio.gather(*(claim.save(Checkpoint(tally=Tally(rows=rows))) for rows in range(200)))
    assert not keeping.done()
    keeping.cancel()
    await claim.save(DONE)
    assert (await Jobs(two[1]).shards("nightly"))[0].checkpoint == DONE


async def test_a_job_that_was_removed_ends_the_wait_and_the_claims(two: tuple[NatsClient, NatsClient]) -> None:
    claim = await claimed(claims(two[0], 1, lease_s=60))
    waiting = asyncio.create_task(claims(two[1], 1, lease_s=60).next())
    await asyncio.sleep(0.1)
    await Jobs(two[1]).forget("nightly")
    async with asyncio.timeout(5):
        with pytest.raises(JobConflict, match="job 'nightly' was removed meanwhile"):
            await waiting
    with pytest.raises(JobConflict, match="or its job was removed"):
        await claim.save(DONE)
    await claim.release()
    with pytest.raises(JobConflict, match="job 'nightly' was removed meanwhile"):
        await claims(two[0], 1).next()


async def test_owners_have_their_full_time_after_the_server_was_away_for_longer_than_their_lease(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as server, connections(server.url, 2) as (one, other):
        await Jobs(one).begin(job())
        claim = await claimed(claims(one, 1))
        keeping = asyncio.create_task(claim.keep())
        waiting = asyncio.create_task(claims(other, 1).next())
        await asyncio.sleep(0.2)
        await server.kill()
        await until(lambda: not one.is_connected and not other.is_connected, "the loss is seen")
        saving = asyncio.create_task(claim.save(Checkpoint(tally=Tally(rows=7))))
        await asyncio.sleep(2 * LEASE_S)
        assert not any(task.done() for task in (keeping, waiting, saving))
        await server.start()
        async with asyncio.timeout(30):
            await saving
        # For longer than a lease, in which the waiting one would have taken over what stood still.
        await asyncio.sleep(1.5 * LEASE_S)
        assert not keeping.done()
        assert not waiting.done()
        await claim.save(DONE)
        async with asyncio.timeout(30):
            assert await waiting is None
        keeping.cancel()


@pytest.mark.parametrize("seed", range(3))
async def test_many_processes_of_which_some_die_do_every_shard_and_never_two_the_same_at_once(
    nats_server: local.Server, seed: int
) -> None:
    """Each adds one to a shard's tally ten times; an addition by who no longer owns it would be seen at the end."""
    rng = random.Random(seed)  # noqa: S311 - a test's plan
    num_shards, steps = 12, 10
    saves = 0

    async def live(nats: NatsClient) -> None:
        nonlocal saves
        mine = claims(nats, num_shards, lease_s=0.4)
        while (claim := await mine.next()) is not None:
            rows = claim.checkpoint.tally.rows
            while rows < steps:
                if rng.random() < 0.1:
                    # As a process that stops without a word: its lease runs out, and it comes back later.
                    await asyncio.sleep(0.8)
                rows += 1
                try:
                    await claim.save(Checkpoint(tally=Tally(rows=rows), is_done=rows == steps))
                except JobConflict:
                    break
                saves += 1

    async with connections(nats_server.url, 5) as all_, asyncio.timeout(60):
        await Jobs(all_[0]).begin(job(num_shards=num_shards))
        await asyncio.gather(*map(live, all_))
        records = await Jobs(all_[0]).shards("nightly")
    assert sorted(records) == [*range(num_shards)]
    assert all(record.checkpoint == Checkpoint(tally=Tally(rows=steps), is_done=True) for record in records.values())
    assert saves == num_shards * steps


async def test_a_shard_that_another_has_begun_meanwhile_is_not_begun_anew(
    two: tuple[NatsClient, NatsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tries for one shard in vain, and when it comes to the next, that is no longer as it saw it."""
    late, me = claims(two[0], 2, lease_s=60), replace(this_process(), process="early")
    late._order = [0, 1]
    claim, point = late._claim, Checkpoint(tally=Tally(rows=7))

    async def claim_late(*arguments: Any) -> Claim | None:
        if not taken:
            for _ in range(2):
                taken.append(await claimed(early))
                await taken[-1].save(point)
            await until(lambda: len(seen[0].entries) == 3, "the change has come here")
        ended.append(await claim(*arguments))
        return ended[-1]

    early, taken, seen = claims(two[1], 2, me, lease_s=60), list[Claim](), list[Watch]()
    ended: list[Claim | None] = []
    next_ = late._next

    async def next_seen(record: JobRecord, watch: Watch) -> Claim | None:
        seen.append(watch)
        return await next_(record, watch)

    # So that it is late at the right moment.
    monkeypatch.setattr(late, "_claim", claim_late)
    monkeypatch.setattr(late, "_next", next_seen)
    waiting = asyncio.create_task(late.next())
    await until(lambda: len(ended) == 2, "it has tried for both")
    assert ended == [None, None]
    for each in taken:
        await each.save(point)
    waiting.cancel()
