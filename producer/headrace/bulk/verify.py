"""The audit of a job: whether the sink has each row of the corpus once, as it was made, and nothing else.

Knows how to compare: the corpus is read again, its ids are looked up in the sink, hashes of texts and checksums of
vectors are compared with what was written down. What is wrong is re-opened, so that the job does it again. Does not
know how: reindex.py does.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from headrace_contracts.credentials import Credentials

from headrace.bulk import checksums
from headrace.bulk.corpus import corpus_of
from headrace.bulk.cut import Spans
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import JobRecord, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.joining import DEFAULT_FOLDER
from headrace.bulk.ledger import Ledger, Record
from headrace.bulk.recording import tally_of
from headrace.bulk.reindex import CONNECT_S
from headrace.bulk.rows import Id
from headrace.bulk.settings import job_dir
from headrace.bulk.sift import find_problems, text_hash
from headrace.bulk.sink import Sink, Stored
from headrace.bulk.sink_thread import SinkThread
from headrace.bulk.source import Source
from headrace.bulk.window import Window, cut_rows
from headrace.errors import SourceError
from headrace.reach import reached


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What an audit found, in rows.

    Attributes:
        rows: of the corpus.
        right: in the sink, with the hash of their text.
        failed: in the errors file, and rightly not in the sink.
        missing: in neither; rows without a text, too, have to be in the errors file.
        stale: in the sink with another text.
        damaged: of windows whose vectors are not those that were written.
        not_done: of windows that the job has not done yet.
        extra: in the sink beyond those that are right: doubled, or left there by an older corpus.
        is_one_corpus: whether the sink should hold this corpus alone.
        windows: the names of windows in which something is missing, stale or damaged.
    """

    rows: int = 0
    right: int = 0
    failed: int = 0
    missing: int = 0
    stale: int = 0
    damaged: int = 0
    not_done: int = 0
    extra: int = 0
    is_one_corpus: bool = True
    windows: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether each row is where it should be, and there once."""
        return not (self.windows or self.not_done or (self.extra and self.is_one_corpus))

    def add(self, other: "Verdict") -> None:
        """Take in what another part of the corpus came to."""
        for each in fields(self):
            if each.name != "is_one_corpus":
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


async def verify(
    source: Source,
    sink: Sink,
    *,
    job: str,
    url: str,
    access: Credentials | None = None,
    reopen: bool = True,
    folder: Path | None = None,
) -> Verdict:
    """Audit a job; what is wrong is to be done again by the next `reindex`.

    Args:
        source: its corpus.
        sink: where its vectors went.
        job: its name.
        url: of nats-server.
        access: who connects to it.
        reopen: re-open the windows in which something is wrong; if false they are only named.
        folder: of the job's files, if the sink is no folder and the job's record does not tell.

    Raises:
        InputError: there is no such job.
        ConnectionFailed: no nats-server answers.
        BulkError: corpus or sink cannot be read, or the corpus is another one than the job's.
    """
    me = this_process().process
    name = f"headrace job {job}"
    async with reached(url, name=name, client_id=me, timeout_s=CONNECT_S, access=access) as (nats, _):
        thread = SinkThread(sink)
        try:
            jobs = Jobs(nats)
            return await _Audit(jobs, source, thread, await jobs.get(job), reopen=reopen, folder=folder).run()
        finally:
            await thread.close()


class _Audit:
    def __init__(
        self, jobs: Jobs, source: Source, thread: SinkThread, record: JobRecord, *, reopen: bool, folder: Path | None
    ) -> None:
        self._jobs = jobs
        self._source = source
        self._thread = thread
        self._record = record
        self._reopen = reopen
        self._ledger = Ledger((thread.sink.place or folder or job_dir(record) or DEFAULT_FOLDER) / record.name)

    async def run(self) -> Verdict:
        """All shards, one after the other."""
        record, sink = self._record, self._thread.sink
        await self._thread.run(lambda: sink.open(record.card, replace=False))
        if corpus_of(await asyncio.to_thread(self._source.shards)) != record.corpus:
            raise SourceError(
                f"{self._source.name} is not the corpus that job {record.name} was begun with: run `headrace reindex` "
                "on it as it is now, then verify that"
            )
        verdict = Verdict(is_one_corpus=sink.is_one_corpus)
        for shard in range(record.num_shards):
            await self._shard(shard, verdict)
        there = verdict.right + verdict.stale + verdict.damaged
        # Of rows with one id a table has the last one, while all of them are right once they have the same text.
        verdict.extra = max(0, await self._thread.run(sink.count) - there)
        return verdict

    async def _shard(self, shard: int, verdict: Verdict) -> None:
        known = await self._jobs.shard(self._record.name, shard)
        spans = Spans() if known is None else known.checkpoint.spans
        records = await asyncio.to_thread(self._ledger.records, shard)
        windows = cut_rows(self._source.read(shard, 0), shard, self._record.cut, 0, 0)
        while (window := await asyncio.to_thread(next, windows, None)) is not None:
            if spans.end_of(window.index) is None:
                verdict.add(Verdict(rows=len(window.ids), not_done=len(window.ids)))
                continue
            record = records.get(window.index)
            failed = await asyncio.to_thread(self._ledger.failed_rows, window.name)
            stored = await self._thread.lookup(window.ids)
            found = compare(window, stored, {row - window.row for row in failed}, record)
            verdict.add(found)
            if found.windows and self._reopen:
                # First what would speak for it, should the broker forget the job.
                await asyncio.to_thread(self._ledger.drop, shard, window.index)
                tally = Tally() if record is None else tally_of(record)
                await self._jobs.reopen(self._record.name, shard, window.span, tally)


def compare(window: Window, stored: Mapping[Id, Stored], failed: Collection[int], record: Record | None) -> Verdict:
    """Compare a window that is done with what the sink has of it.

    Args:
        window: as the corpus has it.
        stored: what the sink has of its ids.
        failed: places of the rows that the errors file names.
        record: what was written down of it; None where that is lost, and nothing is known of its vectors.
    """
    problems = find_problems(window)
    wanted = [place for place in range(len(window.ids)) if place not in problems and place not in failed]
    unlisted = sum(place not in failed for place in problems)
    verdict = Verdict(rows=len(window.ids), failed=len(window.ids) - len(wanted) - unlisted, missing=unlisted)
    for place in wanted:
        has, text = stored.get(window.ids[place]), window.texts[place]
        if has is None:
            verdict.missing += 1
        elif has.hash != text_hash(str(text)):
            verdict.stale += 1
        else:
            verdict.right += 1
    if record is not None and verdict.right == len(wanted) and wanted:
        vectors = np.stack([stored[window.ids[place]].vector for place in wanted])
        if checksums.of_vectors(vectors) != record.vectors:
            verdict.right, verdict.damaged = 0, len(wanted)
    if verdict.missing or verdict.stale or verdict.damaged:
        verdict.windows.append(window.name)
    return verdict
