"""A bulk job from its beginning to its end, by one process of perhaps many: join → claim → run each shard → finish.

Knows the order. How a job is joined is in joining.py, a shard's own way in shard_run.py. Does not know the command
line.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace_contracts.connection import Link, inbox_of
from headrace_contracts.credentials import Credentials
from nats.aio.client import Client as NatsClient

from headrace.bulk.control import Control, ended
from headrace.bulk.jobs.claim import Claim, Claims
from headrace.bulk.jobs.leftovers import drain, purge
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import JobRecord, Owner, ShardRecord, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.joining import Joined, Joining
from headrace.bulk.ledger import Ledger
from headrace.bulk.overview import Overview
from headrace.bulk.parts import Parts
from headrace.bulk.progress import Progress
from headrace.bulk.publisher import Publisher
from headrace.bulk.results import Results
from headrace.bulk.settings import Settings, check_job
from headrace.bulk.shard_run import Crew, ShardRun
from headrace.bulk.sink import Sink
from headrace.bulk.sink_thread import SinkThread
from headrace.bulk.source import Source
from headrace.bulk.summary import Summary
from headrace.bulk.tolerance import Tolerance
from headrace.errors import HeadraceError, JobConflict, JobEnded, JobFailed, ShardLost, SinkRefused
from headrace.pauses import Pauses
from headrace.reach import reached

DEFAULT_URL = "nats://127.0.0.1:4222"
CONNECT_S = 5.0
# For a process that ends to tell others so; they find out without it.
_LEAVE_S = 3.0
_MAX_LOOKS = 8

logger = logging.getLogger(__name__)


async def reindex(
    source: Source,
    sink: Sink,
    *,
    job: str,
    url: str = DEFAULT_URL,
    access: Credentials | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Embed a corpus into a sink; if the job was begun before, go on with it, beside others that do.

    Whatever ends a process of it, or workers, or nats-server: the same call goes on, nothing is lost, and in the sink
    is each row once. Rows that cannot be embedded are in the errors file, with the reason.

    Args:
        source: the corpus; see open_source.
        sink: where vectors go; see open_sink.
        job: its name, a token of at most 64 letters, digits, `_` and `-`. The same name joins the same job.
        url: of nats-server.
        access: who connects to it.
        settings: how.
        progress: counters to show.

    Raises:
        InputError: an argument is wrong.
        ConnectionFailed: no nats-server answers.
        ModelNotFound: the fleet does not serve the model.
        JobConflict: another job of this name is under way, or this one was removed.
        CardMismatch: the sink holds vectors that these cannot be compared with.
        BulkError: it cannot go on; the text says why, and the same call goes on from there.
        Exception: what source or sink raise beyond their protocols; that is a bug in them.
    """
    check_job(job)
    settings, progress = settings or Settings(), progress or Progress()
    me = this_process()
    name = f"headrace job {job}"
    async with reached(url, name=name, client_id=me.process, timeout_s=CONNECT_S, access=access) as (nats, link):
        bulk = _Bulk(
            nats=nats,
            link=link,
            inbox=inbox_of(me.process, access),
            source=source,
            sink=SinkThread(sink, progress),
            job=job,
            settings=settings,
            progress=progress,
            me=me,
        )
        try:
            return await bulk.run()
        except BaseExceptionGroup as failed:
            error = first_error(failed)
            await bulk.give_up(error)
            raise error from None
        except JobFailed as error:
            await bulk.give_up(error)
            raise
        finally:
            await bulk.sink.close()


@dataclass(slots=True, kw_only=True, eq=False)
class _Bulk:
    """One process's part of a job."""

    nats: NatsClient
    link: Link
    inbox: str
    source: Source
    sink: SinkThread
    job: str
    settings: Settings
    progress: Progress
    me: Owner
    jobs: Jobs = field(init=False)
    publisher: Publisher = field(init=False)
    record: JobRecord | None = None
    results: set[Results] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.nats)
        self.publisher = Publisher(self.nats, self.link, f"{self.inbox}.b", self.progress)
        self.link.on_up = self._on_up

    async def run(self) -> Summary:
        """Join, claim, run each shard, finish."""
        joining = Joining(
            nats=self.nats, jobs=self.jobs, source=self.source, sink=self.sink, job=self.job, settings=self.settings
        )
        joined = await joining.join()
        self.record, self.progress.total_rows = joined.record, joined.record.num_rows
        await self.publisher.open()
        overview = Overview(self.nats, self.jobs, self.job, joined.work.card.model, self.progress, self.me)
        await overview.look()  # what earlier runs did must not look like the speed of this one
        async with self.jobs.watch(self.job) as watched:
            control = Control(watched, self.progress)
            crew = self._crew(joined, control)
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(control.run()), tasks.create_task(overview.run())]
                await self._run_shards(crew, joined.record)
                summary = await self._finish(joined, await overview.look())
                for helper in helpers:
                    helper.cancel()
        self.progress.stage, self.progress.chunks_queued = "done", 0
        return summary

    async def give_up(self, error: BaseException) -> None:
        """If the job has failed here, others are told; if it was cancelled, what waits for it in the broker goes."""
        if self.record is None or not isinstance(error, (JobFailed, SinkRefused)):
            return
        try:
            async with asyncio.timeout(_LEAVE_S):
                if not isinstance(error, JobEnded):
                    await self.jobs.set_state(self.job, "failed", str(error), created_ms=self.record.created_ms)
                    return
                there = await self.jobs.get(self.job)
                if there.state == "cancelled" and there.created_ms == self.record.created_ms:
                    await purge(self.nats, self.job, there.card.model)
        except (HeadraceError, TimeoutError) as reason:
            logger.info("others could not be told that the job has failed: %s", reason)

    # -- claim, and run each shard

    def _crew(self, joined: Joined, control: Control) -> Crew:
        return Crew(
            nats=self.nats,
            publisher=self.publisher,
            sink=self.sink,
            ledger=joined.ledger,
            source=self.source,
            cut=joined.record.cut,
            work=joined.work,
            permits=asyncio.Semaphore(self.settings.in_flight),
            preparing=asyncio.Lock(),
            max_windows=self.settings.in_flight,
            control=control,
            progress=self.progress,
            tolerance=self._tolerance(joined.ledger),
            looks_up=joined.looks_up,
        )

    async def _run_shards(self, crew: Crew, record: JobRecord) -> None:
        """One shard after the other; the next one begins once the last one is read, while its windows still run."""
        claims = Claims(self.jobs, self.job, record.num_shards, self.me, self.settings.lease_s)
        failed: list[Claim] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                while (claim := await claims.next()) is not None:
                    is_read = asyncio.Event()
                    tasks.create_task(self._run_shard(crew, claim, is_read, failed))
                    await is_read.wait()
        finally:
            # Only now: above, this process would take a shard again that has just failed here.
            for claim in failed:
                await _let_go(claim)

    async def _run_shard(self, crew: Crew, claim: Claim, is_read: asyncio.Event, failed: list[Claim]) -> None:
        results = Results(self.nats, self.link, self.job, claim.shard)
        self.results.add(results)
        failed.append(claim)
        try:
            await ShardRun(crew, claim, results).run(is_read.set)
        except* ShardLost:
            # This process stood still for too long. The other one goes on with the shard, and this one with the rest.
            logger.warning("shard %d was taken over by another process, or the job was removed", claim.shard)
        finally:
            self.results.discard(results)
            is_read.set()
        failed.remove(claim)
        await _let_go(claim)

    def _on_up(self) -> None:
        """The connection was made anew: what was on its way here is lost."""
        for results in self.results:
            results.renew()

    def _tolerance(self, ledger: Ledger) -> Tolerance:
        return replace(self.settings.tolerance, where=str(ledger.errors_folder))

    # -- finish

    async def _finish(self, joined: Joined, tally: Tally) -> Summary:
        """All shards are done, of all processes. Each of them comes here, one after the other; the first does it."""
        self._tolerance(joined.ledger).check(tally.failed, tally.rows, is_all=True)
        errors = None
        claims = Claims(self.jobs, self.job, 1, self.me, self.settings.lease_s, first_shard=joined.record.num_shards)
        is_over = False
        while not is_over and (claim := await claims.next()) is not None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    keeping = tasks.create_task(claim.keep())
                    errors = await self._finish_alone(joined)
                    keeping.cancel()
                is_over = True
            except* ShardLost:
                logger.warning("another process finishes the job")
            finally:
                await _let_go(claim)
        return Summary(
            job=self.job,
            rows=tally.rows,
            written=tally.written,
            unchanged=tally.unchanged,
            failed=tally.failed,
            tokens=tally.tokens,
            errors=errors,
        )

    async def _done_shards(self, num_shards: int) -> Mapping[int, ShardRecord]:
        """The records of all shards: what is no part of theirs is dropped from the sink."""
        pauses = Pauses()
        for _ in range(_MAX_LOOKS):
            shards = await self.jobs.shards(self.job)
            if len(shards) == num_shards and all(shard.checkpoint.is_done for shard in shards.values()):
                return shards
            # In a cluster a copy of the bucket may lag behind the one that told this process so.
            await asyncio.sleep(pauses.take_s())
        raise JobConflict(
            f"windows of job {self.job!r} were re-opened while it was finished, as an audit does: run the command again"
        )

    async def _finish_alone(self, joined: Joined) -> Path | None:
        """Returns the file of errors, if there are any."""
        parts = Parts.of(await self._done_shards(joined.record.num_shards))
        there = await self.jobs.get(self.job)
        if there.created_ms != joined.record.created_ms:
            raise JobConflict(f"job {self.job!r} has ended, and another has taken its name")
        if there.state in {"cancelled", "failed"}:
            raise ended(there)
        errors = await self.sink.write(lambda: joined.ledger.join_errors(parts))
        # Of processes that were killed or stood still, and copies of what was answered twice.
        await drain(self.nats, self.job, joined.work.card.model)
        await purge(self.nats, self.job, joined.work.card.model)
        if there.state != "done":
            await self.sink.write(lambda: self.sink.sink.finish(parts))
            done = await self.jobs.set_state(self.job, "done", created_ms=there.created_ms)
            await self.sink.write(lambda: joined.ledger.keep_job(done.to_json()))
        return errors


async def _let_go(claim: Claim) -> None:
    """Spare others the wait until its lease runs out; but this process must not wait for a broker that is away."""
    with contextlib.suppress(HeadraceError, TimeoutError):
        async with asyncio.timeout(_LEAVE_S):
            await claim.release()


def first_error(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """What tells the caller most: an error of ours before one that it brought about."""
    found = _leaves(failed)
    return next((error for error in found if isinstance(error, HeadraceError)), found[0])


def _leaves(failed: BaseException) -> list[BaseException]:
    if not isinstance(failed, BaseExceptionGroup):
        return [failed]
    return [leaf for inner in failed.exceptions for leaf in _leaves(inner)]
