"""A bulk job from its beginning to its end, by one process of perhaps many: join → claim → run each shard → finish.

Knows the order, and what a process must have before it may begin. A shard's own way is in shard_run.py. Does not know
the command line.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from headrace_contracts import Options, subjects
from headrace_contracts.connection import Link
from nats.aio.client import Client as NatsClient

from headrace.bulk import room
from headrace.bulk.card import Card
from headrace.bulk.control import Control, ended
from headrace.bulk.corpus import corpus_of
from headrace.bulk.jobs.claim import Claim, Claims
from headrace.bulk.jobs.leftovers import drain, purge
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import FINISHED, LOOKS_UP, JobRecord, Owner, ShardRecord, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.ledger import Ledger
from headrace.bulk.one_corpus import take_folder
from headrace.bulk.overview import Overview
from headrace.bulk.parts import Parts
from headrace.bulk.prepare import Work
from headrace.bulk.progress import Progress
from headrace.bulk.publisher import Publisher
from headrace.bulk.results import Results
from headrace.bulk.settings import JOB_DIR, Settings, check_job
from headrace.bulk.shard_run import Crew, ShardRun
from headrace.bulk.sink import Sink
from headrace.bulk.sink_thread import SinkThread
from headrace.bulk.source import Shard, Source
from headrace.bulk.summary import Summary
from headrace.bulk.tolerance import Tolerance
from headrace.catalogue import Catalogue
from headrace.errors import HeadraceError, JobConflict, JobEnded, JobFailed, ShardLost, SinkRefused
from headrace.pauses import Pauses
from headrace.published import Model, Published
from headrace.reach import reached

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_FOLDER = Path("headrace-jobs")
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
    async with reached(url, name=f"headrace job {job}", client_id=me.process, timeout_s=CONNECT_S) as (nats, link):
        bulk = _Bulk(
            nats=nats,
            link=link,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A job that this process has joined."""

    record: JobRecord
    work: Work
    ledger: Ledger
    looks_up: bool


@dataclass(slots=True, kw_only=True, eq=False)
class _Bulk:
    """One process's part of a job."""

    nats: NatsClient
    link: Link
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
        self.publisher = Publisher(self.nats, self.link, f"{subjects.inbox(self.me.process)}.b", self.progress)
        self.link.on_up = self._on_up

    async def run(self) -> Summary:
        """Join, claim, run each shard, finish."""
        begun = await self._begin()
        await self.publisher.open()
        overview = Overview(self.nats, self.jobs, self.job, begun.work.card.model, self.progress, self.me)
        await overview.look()  # what earlier runs did must not look like the speed of this one
        async with self.jobs.watch(self.job) as watched:
            control = Control(watched, self.progress)
            crew = self._crew(begun, control)
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(control.run()), tasks.create_task(overview.run())]
                await self._run_shards(crew, begun.record)
                summary = await self._finish(begun, await overview.look())
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

    # -- join

    async def _begin(self) -> _Begun:
        settings, sink = self.settings, self.sink.sink
        model = await Catalogue(Published(self.nats)).model(settings.model, "embed")
        work = self._work(model)
        wanted = self._record(work, await asyncio.to_thread(self.source.shards))
        # Before anything is touched: a sink may be emptied now.
        is_new = await self.jobs.check(wanted)
        rows = wanted.cut.rows if wanted.num_rows is None else min(wanted.cut.rows, wanted.num_rows)
        await room.check_results(self.nats, work.card, rows)
        # Once: what is wrong with a sink from the first is not to be waited for.
        await self.sink.run(lambda: sink.open(work.card, replace=settings.replace))
        if is_new and sink.place is not None and sink.is_one_corpus:
            await self.sink.run(partial(take_folder, sink.place, wanted.source, wanted.sink, replace=settings.replace))
        is_new = is_new or await self._forget_emptied()
        has_rows = is_new and settings.skip_unchanged and await self.sink.write(sink.count) > 0
        wanted = replace(wanted, options={**wanted.options, LOOKS_UP: has_rows})
        record = self.record = await self.jobs.begin(wanted)
        if settings.replace and await self._is_emptied():
            raise JobConflict(
                f"what job {record.name!r} has written is no longer in {record.sink}: forget it with `headrace job rm "
                f"{record.name}`, and run the command again to begin it anew"
            )
        ledger = Ledger(self._folder / self.job)
        await self.sink.run(lambda: _adopt(ledger, record, sink))
        self.progress.total_rows = record.num_rows
        looks_up = settings.trusts_sink and bool(record.options[LOOKS_UP])
        work = replace(work, job_ms=record.created_ms)
        return _Begun(record=record, work=work, ledger=ledger, looks_up=looks_up)

    async def _forget_emptied(self) -> bool:
        """Forget the job if it has ended and its vectors are gone: who removed them wants them made anew."""
        if (await self.jobs.get(self.job)).state not in FINISHED or not await self._is_emptied():
            return False
        logger.warning("what job %s has written is no longer in the sink: it begins anew", self.job)
        await self.jobs.forget(self.job)
        return True

    async def _is_emptied(self) -> bool:
        """Whether the job has written vectors and the sink has none."""
        shards = (await self.jobs.shards(self.job)).values()
        num_there = sum(shard.checkpoint.tally.written + shard.checkpoint.tally.unchanged for shard in shards)
        return num_there > 0 and not await self.sink.write(self.sink.sink.count)

    @property
    def _folder(self) -> Path:
        """For the files of jobs."""
        return self.sink.sink.place or (self.settings.folder or DEFAULT_FOLDER).expanduser().absolute()

    def _work(self, model: Model) -> Work:
        settings, options = self.settings, self.settings.embed_options()
        wanted: Options = options.for_model(model.spec)
        prompt = options.prompt(model.spec)
        return Work(
            job=self.job,
            job_ms=0,
            model=model,
            options=wanted,
            prompt=prompt,
            card=Card.of(model.spec, wanted, prompt),
            truncate=settings.truncate,
            dedupe=settings.dedupe,
            keep_texts=settings.keep_texts,
        )

    def _record(self, work: Work, shards: Sequence[Shard]) -> JobRecord:
        settings, now_ms = self.settings, int(time.time() * 1000)
        counts = [shard.num_rows for shard in shards]
        return JobRecord(
            name=self.job,
            source=self.source.name,
            sink=self.sink.sink.name,
            card=work.card,
            cut=settings.cut,
            corpus=corpus_of(shards),
            num_shards=len(shards),
            num_rows=None if None in counts else sum(count or 0 for count in counts),
            options={
                "truncate": settings.truncate,
                "dedupe": settings.dedupe,
                "keep_texts": settings.keep_texts,
                "skip_unchanged": settings.skip_unchanged,
                "prompt_name": settings.prompt_name,
                # Were it another one, rows that failed would be listed in two places.
                JOB_DIR: None if self.sink.sink.place else str(self._folder),
                **settings.remembered,
            },
            state="running",
            reason=None,
            created_ms=now_ms,
            changed_ms=now_ms,
        )

    # -- claim, and run each shard

    def _crew(self, begun: _Begun, control: Control) -> Crew:
        return Crew(
            nats=self.nats,
            publisher=self.publisher,
            sink=self.sink,
            ledger=begun.ledger,
            source=self.source,
            cut=begun.record.cut,
            work=begun.work,
            permits=asyncio.Semaphore(self.settings.in_flight),
            preparing=asyncio.Lock(),
            max_windows=self.settings.in_flight,
            control=control,
            progress=self.progress,
            tolerance=self._tolerance(begun.ledger),
            looks_up=begun.looks_up,
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

    async def _finish(self, begun: _Begun, tally: Tally) -> Summary:
        """All shards are done, of all processes. Each of them comes here, one after the other; the first does it."""
        self._tolerance(begun.ledger).check(tally.failed, tally.rows, is_all=True)
        errors = None
        claims = Claims(self.jobs, self.job, 1, self.me, self.settings.lease_s, first_shard=begun.record.num_shards)
        is_over = False
        while not is_over and (claim := await claims.next()) is not None:
            try:
                async with asyncio.TaskGroup() as tasks:
                    keeping = tasks.create_task(claim.keep())
                    errors = await self._finish_alone(begun)
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

    async def _finish_alone(self, begun: _Begun) -> Path | None:
        """Returns the file of errors, if there are any."""
        parts = Parts.of(await self._done_shards(begun.record.num_shards))
        there = await self.jobs.get(self.job)
        if there.created_ms != begun.record.created_ms:
            raise JobConflict(f"job {self.job!r} has ended, and another has taken its name")
        if there.state in {"cancelled", "failed"}:
            raise ended(there)
        errors = await self.sink.write(lambda: begun.ledger.join_errors(parts))
        # Of processes that were killed or stood still, and copies of what was answered twice.
        await drain(self.nats, self.job, begun.work.card.model)
        await purge(self.nats, self.job, begun.work.card.model)
        if there.state != "done":
            await self.sink.write(lambda: self.sink.sink.finish(parts))
            done = await self.jobs.set_state(self.job, "done", created_ms=there.created_ms)
            await self.sink.write(lambda: begun.ledger.keep_job(done.to_json()))
        return errors


async def _let_go(claim: Claim) -> None:
    """Spare others the wait until its lease runs out; but this process must not wait for a broker that is away."""
    with contextlib.suppress(HeadraceError, TimeoutError):
        async with asyncio.timeout(_LEAVE_S):
            await claim.release()


def _adopt(ledger: Ledger, record: JobRecord, sink: Sink) -> None:
    """Have the ledger be the job's. What it has of another one goes; all its processes agree on which that is."""
    with ledger.alone():
        there = _kept(ledger)
        if there is None or (there.created_ms != record.created_ms and not _is_as_left(ledger, there, record, sink)):
            ledger.clear()
        ledger.keep_job(record.to_json())


def _is_as_left(ledger: Ledger, there: JobRecord, record: JobRecord, sink: Sink) -> bool:
    """Whether an unfinished job of the same work, of which the broker remembers nothing any more, left this sink."""
    is_same = there.state not in FINISHED and not there.differences(record)
    return is_same and sink.count() >= ledger.num_vectors()


def _kept(ledger: Ledger) -> JobRecord | None:
    """The job that the ledger is of; None if that cannot be told."""
    written = ledger.job()
    try:
        return None if written is None else JobRecord.from_json(written)
    except JobConflict:
        return None


def first_error(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """What tells the caller most: an error of ours before one that it brought about."""
    found = _leaves(failed)
    return next((error for error in found if isinstance(error, HeadraceError)), found[0])


def _leaves(failed: BaseException) -> list[BaseException]:
    if not isinstance(failed, BaseExceptionGroup):
        return [failed]
    return [leaf for inner in failed.exceptions for leaf in _leaves(inner)]
