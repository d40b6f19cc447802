"""A bulk job from its beginning to its end, by one process of perhaps many: join → claim → run each shard → finish.

Knows the order, and what a process must have before it may begin. A shard's own way is in shard_run.py. Does not know
the command line.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace_contracts import Options, subjects
from headrace_contracts.connection import Link
from nats.aio.client import Client as NatsClient

from headrace.bulk.card import Card
from headrace.bulk.control import Control
from headrace.bulk.corpus import corpus_of
from headrace.bulk.jobs.claim import Claim, Claims
from headrace.bulk.jobs.leftovers import purge
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import FINISHED, JobRecord, Owner, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.ledger import Ledger
from headrace.bulk.overview import Overview
from headrace.bulk.parts import Parts
from headrace.bulk.prepare import Work
from headrace.bulk.progress import Progress
from headrace.bulk.publisher import Publisher
from headrace.bulk.results import Results
from headrace.bulk.settings import Settings, check_job
from headrace.bulk.shard_run import Crew, ShardRun
from headrace.bulk.sink import Sink
from headrace.bulk.sink_thread import SinkThread
from headrace.bulk.source import Shard, Source
from headrace.bulk.summary import Summary
from headrace.catalogue import Catalogue
from headrace.errors import HeadraceError, InputError, JobConflict, JobFailed
from headrace.published import Model, Published
from headrace.reach import reached

DEFAULT_URL = "nats://127.0.0.1:4222"
# Whether the sink had rows when the job began, which may be unchanged.
_LOOKS_UP = "looks_up"
DEFAULT_FOLDER = Path("headrace-jobs")
CONNECT_S = 5.0


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
        JobConflict: another job of this name is under way.
        CardMismatch: the sink holds vectors that these cannot be compared with.
        BulkError: it cannot go on; the text says why, and the same call goes on from there.
    """
    check_job(job)
    settings, progress = settings or Settings(), progress or Progress()
    me = this_process()
    async with reached(url, name=f"headrace job {job}", client_id=me.process, timeout_s=CONNECT_S) as (nats, link):
        bulk = _Bulk(
            nats=nats,
            link=link,
            source=source,
            sink=SinkThread(sink),
            job=job,
            settings=settings,
            progress=progress,
            me=me,
        )
        try:
            return await bulk.run()
        except BaseExceptionGroup as failed:
            error = first_error(failed)
            if isinstance(error, JobFailed):
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
    results: dict[int, Results] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.nats)
        self.publisher = Publisher(self.nats, self.link, f"{subjects.inbox(self.me.process)}.b")
        self.link.on_up = self._on_up

    async def run(self) -> Summary:
        """Join, claim, run each shard, finish."""
        begun = await self._begin()
        await self.publisher.open()
        async with self.jobs.watch(self.job) as watched:
            control = Control(watched, self.progress)
            crew = self._crew(begun, control)
            overview = Overview(self.nats, self.jobs, self.job, begun.work.card.model, self.progress, self.me)
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(control.run()), tasks.create_task(overview.run())]
                await self._run_shards(crew, begun.record)
                summary = await self._finish(begun, await overview.look())
                for helper in helpers:
                    helper.cancel()
        self.progress.stage = "done"
        return summary

    async def give_up(self, error: JobFailed) -> None:
        """The job has failed here, or it was ended elsewhere: then what waits for it in the broker goes."""
        with contextlib.suppress(InputError):  # it was removed meanwhile
            record = await self.jobs.get(self.job)
            if record.state == "running":
                await self.jobs.set_state(self.job, "failed", str(error))
            elif record.state == "cancelled":
                await purge(self.nats, self.job, record.card.model)

    # -- join

    async def _begin(self) -> _Begun:
        model = await Catalogue(Published(self.nats)).model(self.settings.model, "embed")
        work = self._work(model)
        await self.sink.run(lambda: self.sink.sink.open(work.card, replace=self.settings.replace))
        shards = await asyncio.to_thread(self.source.shards)
        ledger = Ledger((self.sink.sink.place or self.settings.folder or DEFAULT_FOLDER) / self.job)
        record = await self._join(self._record(work, shards), ledger)
        self.progress.total_rows = record.num_rows
        looks_up = self.settings.trusts_sink and bool(record.options[_LOOKS_UP])
        return _Begun(record=record, work=work, ledger=ledger, looks_up=looks_up)

    def _work(self, model: Model) -> Work:
        settings, options = self.settings, self.settings.embed_options()
        wanted: Options = options.for_model(model.spec)
        prompt = options.prompt(model.spec)
        return Work(
            job=self.job,
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
                **settings.remembered,
            },
            state="running",
            reason=None,
            created_ms=now_ms,
            changed_ms=now_ms,
        )

    async def _join(self, wanted: JobRecord, ledger: Ledger) -> JobRecord:
        """Begin the job, or go on with it. One that has ended makes way for one of its name with other work."""
        there = {record.name: record for record in await self.jobs.list()}.get(self.job)
        # Decided once: later on the sink has what this job itself has written.
        looks_up = False if there is None else there.options.get(_LOOKS_UP)
        wanted = replace(wanted, options={**wanted.options, _LOOKS_UP: looks_up})
        if there is not None and there.state in FINISHED and there.differences(wanted):
            await self.jobs.forget(self.job)
            there = None
        if there is None and self.settings.skip_unchanged:
            has_rows = await self.sink.write(self.sink.sink.count) > 0
            wanted = replace(wanted, options={**wanted.options, _LOOKS_UP: has_rows})
        if there is None and not await self.sink.write(lambda: _is_of(ledger, wanted)):
            await self.sink.write(ledger.clear)
        record = await self.jobs.begin(wanted)
        await self.sink.write(lambda: ledger.keep_job(record.to_json()))
        return record

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
            control=control,
            progress=self.progress,
            tolerance=self.settings.tolerance,
            looks_up=begun.looks_up,
        )

    async def _run_shards(self, crew: Crew, record: JobRecord) -> None:
        """One shard after the other; the next one begins once the last one is read, while its windows still run."""
        claims = Claims(self.jobs, self.job, record.num_shards, self.me)
        async with asyncio.TaskGroup() as tasks:
            while (claim := await claims.next()) is not None:
                is_read = asyncio.Event()
                tasks.create_task(self._run_shard(crew, claim, is_read))
                await is_read.wait()

    async def _run_shard(self, crew: Crew, claim: Claim, is_read: asyncio.Event) -> None:
        results = self.results[claim.shard] = Results(self.nats, self.link, self.job, claim.shard)
        try:
            await ShardRun(crew, claim, results, self.me.process).run(is_read.set)
        finally:
            del self.results[claim.shard]
            await claim.release()

    def _on_up(self) -> None:
        """The connection was made anew: what was on its way here is lost."""
        for results in self.results.values():
            results.renew()

    # -- finish

    async def _finish(self, begun: _Begun, tally: Tally) -> Summary:
        """All shards are done, of all processes. Each of them comes here, one after the other; the first does it."""
        self.settings.tolerance.check(tally.failed, tally.rows, is_all=True)
        parts = Parts.of(await self.jobs.shards(self.job))
        alone = await Claims(self.jobs, self.job, 1, self.me, first_shard=begun.record.num_shards).next()
        errors = await self.sink.write(lambda: begun.ledger.join_errors(parts))
        if (await self.jobs.get(self.job)).state == "running":
            await self.sink.write(lambda: self.sink.sink.finish(parts))
            done = await self.jobs.set_state(self.job, "done")
            await self.sink.write(lambda: begun.ledger.keep_job(done.to_json()))
        if alone is not None:
            await alone.release()
        return Summary(
            job=self.job,
            rows=tally.rows,
            written=tally.written,
            unchanged=tally.unchanged,
            failed=tally.failed,
            tokens=tally.tokens,
            errors=errors,
        )


def _is_of(ledger: Ledger, wanted: JobRecord) -> bool:
    """Whether the ledger is that of this very job, unfinished, of which the broker remembers nothing any more."""
    kept = ledger.job()
    try:
        there = None if kept is None else JobRecord.from_json(kept)
    except JobConflict:
        return False
    return there is not None and there.state not in FINISHED and not there.differences(wanted)


def first_error(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """What tells the caller most: an error of ours before one that it brought about."""
    found = _leaves(failed)
    return next((error for error in found if isinstance(error, HeadraceError)), found[0])


def _leaves(failed: BaseException) -> list[BaseException]:
    if not isinstance(failed, BaseExceptionGroup):
        return [failed]
    return [leaf for inner in failed.exceptions for leaf in _leaves(inner)]
