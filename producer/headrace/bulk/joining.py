"""How a process joins a bulk job: model, sink and corpus must be what the job was begun with, and it may be the first.

Knows what is seen to before anything is done, and in which order: nothing is touched that would have to be mended. Does
not know how a job is done.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from headrace_contracts import Options
from nats.aio.client import Client as NatsClient

from headrace.bulk import room
from headrace.bulk.card import Card
from headrace.bulk.corpus import corpus_of
from headrace.bulk.jobs.record import FINISHED, LOOKS_UP, JobRecord
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.ledger import Ledger
from headrace.bulk.one_corpus import take_folder
from headrace.bulk.prepare import Work
from headrace.bulk.settings import JOB_DIR, Settings
from headrace.bulk.sink import Sink
from headrace.bulk.sink_thread import SinkThread
from headrace.bulk.source import Shard, Source
from headrace.catalogue import Catalogue
from headrace.errors import JobConflict
from headrace.published import Model, Published

DEFAULT_FOLDER = Path("headrace-jobs")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A job that this process works on.

    Attributes:
        record: of it.
        work: what is the same for all its windows.
        ledger: what is written down beside the sink.
        looks_up: whether the sink may have had rows before it.
    """

    record: JobRecord
    work: Work
    ledger: Ledger
    looks_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """One process on its way into a job."""

    nats: NatsClient
    jobs: Jobs
    source: Source
    sink: SinkThread
    job: str
    settings: Settings

    async def join(self) -> Joined:
        """Begin the job, or join it.

        Raises:
            HeadraceError: see reindex.
        """
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
        record = await self.jobs.begin(wanted)
        if settings.replace and await self._is_emptied():
            raise JobConflict(
                f"what job {record.name!r} has written is no longer in {record.sink}: forget it with `headrace job rm "
                f"{record.name}`, and run the command again to begin it anew"
            )
        ledger = Ledger(self._folder / self.job)
        await self.sink.run(lambda: _adopt(ledger, record, sink))
        looks_up = settings.trusts_sink and bool(record.options[LOOKS_UP])
        work = replace(work, job_ms=record.created_ms)
        return Joined(record=record, work=work, ledger=ledger, looks_up=looks_up)

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
