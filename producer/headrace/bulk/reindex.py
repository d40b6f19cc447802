"""A bulk job from its beginning to its end, by one process of perhaps many: join → claim → run each shard → finish.

Knows the order, and what a process must have before it may begin. A shard's own way is in shard_run.py. Does not know
the command line.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace_contracts import Options, connection, subjects, topology
from headrace_contracts.api import api
from headrace_contracts.connection import Link
from nats.aio.client import Client as NatsClient

from headrace.bulk.card import Card
from headrace.bulk.control import Control
from headrace.bulk.corpus import corpus_of
from headrace.bulk.jobs.claim import Claim, Claims
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
from headrace.errors import ConnectionFailed, HeadraceError, JobFailed
from headrace.published import Model, Published

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_FOLDER = Path("headrace-jobs")
_CONNECT_S = 5.0


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
    async with connected(url) as (nats, link):
        bulk = _Bulk(nats, link, source, SinkThread(sink), job, settings, progress)
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


class _Bulk:
    """One process's part of a job."""

    def __init__(
        self,
        nats: NatsClient,
        link: Link,
        source: Source,
        sink: SinkThread,
        job: str,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self.sink = sink
        self._nats, self._link = nats, link
        self._source = source
        self._job = job
        self._settings = settings
        self._progress = progress
        self._jobs = Jobs(nats)
        self._me: Owner = this_process()
        self._publisher = Publisher(nats, link, f"{subjects.inbox(self._me.process)}.b")
        self._results: dict[int, Results] = {}
        link.on_up = self._on_up

    async def run(self) -> Summary:
        """Join, claim, run each shard, finish."""
        begun = await self._begin()
        await self._publisher.open()
        async with self._jobs.watch(self._job) as watched:
            control = Control(watched, self._progress)
            crew = self._crew(begun, control)
            overview = Overview(self._nats, self._jobs, self._job, begun.work.card.model, self._progress, self._me)
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(control.run()), tasks.create_task(overview.run())]
                await self._run_shards(crew, begun.record)
                summary = await self._finish(begun, await overview.look())
                for helper in helpers:
                    helper.cancel()
        self._progress.stage = "done"
        return summary

    async def give_up(self, error: JobFailed) -> None:
        """The job has failed here, or it was ended elsewhere: then what waits for it in the broker goes."""
        record = await self._jobs.get(self._job)
        if record.state == "running":
            await self._jobs.set_state(self._job, "failed", str(error))
        elif record.state == "cancelled":
            await api(
                self._nats, f"STREAM.PURGE.{topology.RESULTS_STREAM}", {"filter": subjects.results_of_job(self._job)}
            )

    # -- join

    async def _begin(self) -> _Begun:
        model = await Catalogue(Published(self._nats)).model(self._settings.model, "embed")
        work = self._work(model)
        await self.sink.run(lambda: self.sink.sink.open(work.card, replace=self._settings.replace))
        shards = await asyncio.to_thread(self._source.shards)
        record = await self._join(self._record(work, shards))
        self._progress.total_rows = record.num_rows
        place = self.sink.sink.place or self._settings.folder or DEFAULT_FOLDER
        may_look = self._settings.trusts_sink and self._settings.skip_unchanged
        looks_up = may_look and await self.sink.run(self.sink.sink.count) > 0
        return _Begun(record=record, work=work, ledger=Ledger(place / self._job), looks_up=looks_up)

    def _work(self, model: Model) -> Work:
        settings, options = self._settings, self._settings.embed_options()
        wanted: Options = options.for_model(model.spec)
        prompt = options.prompt(model.spec)
        return Work(
            job=self._job,
            model=model,
            options=wanted,
            prompt=prompt,
            card=Card.of(model.spec, wanted, prompt),
            truncate=settings.truncate,
            dedupe=settings.dedupe,
            keep_texts=settings.keep_texts,
        )

    def _record(self, work: Work, shards: Sequence[Shard]) -> JobRecord:
        settings, now_ms = self._settings, int(time.time() * 1000)
        counts = [shard.num_rows for shard in shards]
        return JobRecord(
            name=self._job,
            source=self._source.name,
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

    async def _join(self, wanted: JobRecord) -> JobRecord:
        """Begin the job, or go on with it. One that has ended makes way for one of its name with other work."""
        there = {record.name: record for record in await self._jobs.list()}.get(self._job)
        if there is not None and there.state in FINISHED and there.differences(wanted):
            await self._jobs.forget(self._job)
        return await self._jobs.begin(wanted)

    # -- claim, and run each shard

    def _crew(self, begun: _Begun, control: Control) -> Crew:
        return Crew(
            nats=self._nats,
            publisher=self._publisher,
            sink=self.sink,
            ledger=begun.ledger,
            source=self._source,
            cut=begun.record.cut,
            work=begun.work,
            permits=asyncio.Semaphore(self._settings.in_flight),
            control=control,
            progress=self._progress,
            tolerance=self._settings.tolerance,
            looks_up=begun.looks_up,
        )

    async def _run_shards(self, crew: Crew, record: JobRecord) -> None:
        """One shard after the other; the next one begins once the last one is read, while its windows still run."""
        claims = Claims(self._jobs, self._job, record.num_shards, self._me)
        async with asyncio.TaskGroup() as tasks:
            while (claim := await claims.next()) is not None:
                is_read = asyncio.Event()
                tasks.create_task(self._run_shard(crew, claim, is_read))
                await is_read.wait()

    async def _run_shard(self, crew: Crew, claim: Claim, is_read: asyncio.Event) -> None:
        results = self._results[claim.shard] = Results(self._nats, self._link, self._job, claim.shard)
        try:
            await ShardRun(crew, claim, results, self._me.process).run(is_read.set)
        finally:
            del self._results[claim.shard]
            await claim.release()

    def _on_up(self) -> None:
        """The connection was made anew: what was on its way here is lost."""
        for results in self._results.values():
            results.renew()

    # -- finish

    async def _finish(self, begun: _Begun, tally: Tally) -> Summary:
        """All shards are done, of all processes. Each of them may come here; what they do is done once or the same."""
        self._settings.tolerance.check(tally.failed, tally.rows, is_all=True)
        parts = Parts.of(await self._jobs.shards(self._job))
        errors = await self.sink.write(lambda: begun.ledger.join_errors(parts))
        await self.sink.write(lambda: self.sink.sink.finish(parts))
        if (await self._jobs.get(self._job)).state == "running":
            await self._jobs.set_state(self._job, "done")
        return Summary(
            job=self._job,
            rows=tally.rows,
            written=tally.written,
            unchanged=tally.unchanged,
            failed=tally.failed,
            tokens=tally.tokens,
            errors=errors,
        )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[NatsClient, Link]]:
    """A connection for as long as the context lasts.

    Raises:
        ConnectionFailed: nothing answers, or the server is too old.
    """
    try:
        nats, link = await connection.connect(
            url, name="headrace job", inbox=subjects.inbox(this_process().process), timeout_s=_CONNECT_S
        )
    except connection.Unreachable as error:
        raise ConnectionFailed(f"{error}: start one with `headrace up`, or check the URL") from error
    except connection.ServerTooOld as error:
        raise ConnectionFailed(str(error)) from error
    try:
        yield nats, link
    finally:
        await connection.close(nats)


def first_error(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """What tells the caller most: an error of ours before one that it brought about."""
    found = _leaves(failed)
    return next((error for error in found if isinstance(error, HeadraceError)), found[0])


def _leaves(failed: BaseException) -> list[BaseException]:
    if not isinstance(failed, BaseExceptionGroup):
        return [failed]
    return [leaf for inner in failed.exceptions for leaf in _leaves(inner)]
