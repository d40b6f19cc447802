"""The bulk jobs of the fleet: what each has done, who works on it, and how long it may take.

Knows the KV bucket hr_jobs, which it follows, so that each record is read once. Does not know how jobs are shown.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nats.aio.client import Client as NatsClient
from nats.js.errors import BucketNotFoundError

from headrace.bulk.jobs.bucket import Entry
from headrace.bulk.jobs.facts import num_processes
from headrace.bulk.jobs.record import FINISHED, JobRecord, ShardRecord, State, Tally
from headrace.bulk.jobs.watch import Watch
from headrace.bulk.rate import Rate
from headrace.errors import JobConflict

logger = logging.getLogger(__name__)

# Of more than these only the state is told: each has shards to be read.
_MOST = 50
# Rows come by the window: as in bulk/progress.py, the time that is left should not jump with each of them.
_ROWS_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A bulk job.

    Attributes:
        name: of it.
        state: in which it should be.
        model: that it asks.
        created_ms: when it began, unix time.
        num_rows: of its corpus; None where that is not known.
        num_shards: of its corpus.
        tally: what was done; None beyond the fifty jobs that are looked into: unfinished ones first, then the newest.
        processes: that work on it now.
        rows_per_s: over the last ten minutes; None until that is known.
    """

    name: str
    state: State
    model: str
    created_ms: int
    num_rows: int | None
    num_shards: int
    tally: Tally | None = None
    processes: int = 0
    rows_per_s: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it should run, and no process works on it."""
        return self.state == "running" and self.tally is not None and not self.processes

    @property
    def eta_s(self) -> float | None:
        """Seconds until all rows are done, as fast as of late; None where that cannot be said."""
        if self.state != "running" or self.tally is None or self.num_rows is None or not self.rows_per_s:
            return None
        return max(0, self.num_rows - self.tally.rows) / self.rows_per_s


class JobsOfFleet:
    """Follows the jobs of a fleet."""

    def __init__(self, nats: NatsClient) -> None:
        self._nats = nats
        self._watch = Watch(nats, ("*", "*.*"))
        self._following: asyncio.Task[None] | None = None
        self._read: dict[str, tuple[int, JobRecord | ShardRecord | None]] = {}
        self._rates: dict[tuple[str, int], Rate] = {}

    async def read(self) -> tuple[Job, ...]:
        """All jobs, newest first; those whose record cannot be read are left out.

        Raises:
            ConnectionFailed: the connection is closed for good.
        """
        if not await self._follow():
            return ()
        entries = self._watch.entries
        self._read = {key: read for key, read in self._read.items() if key in entries}
        records = [record for key in entries if "." not in key and isinstance(record := self._record(key), JobRecord)]
        records.sort(key=lambda job: (job.state not in FINISHED, job.created_ms), reverse=True)
        shards = self._shards({job.name: job for job in records[:_MOST]})
        self._rates = {key: rate for key, rate in self._rates.items() if key[0] in shards}
        jobs = (self._job(job, shards.get(job.name)) for job in records)
        return tuple(sorted(jobs, key=lambda job: job.created_ms, reverse=True))

    async def close(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))

    async def _follow(self) -> bool:
        """Wait until all that is there was read; whether there is a bucket at all."""
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._watch.run())
        complete = asyncio.ensure_future(self._watch.complete())
        try:
            await asyncio.wait((self._following, complete), return_when=asyncio.FIRST_COMPLETED)
        finally:
            complete.cancel()
        if not self._following.done():
            return True
        with contextlib.suppress(BucketNotFoundError):
            self._following.result()
        self._watch = Watch(self._nats, ("*", "*.*"))
        return False

    def _record(self, key: str) -> JobRecord | ShardRecord | None:
        entry = self._watch.entries[key]
        known = self._read.get(key)
        if known is None or known[0] != entry.revision:
            known = self._read[key] = (entry.revision, _parsed(key, entry))
        return known[1]

    def _shards(self, jobs: Mapping[str, JobRecord]) -> dict[str, list[ShardRecord]]:
        """The records of the shards of these jobs."""
        found: dict[str, list[ShardRecord]] = {name: [] for name in jobs}
        for key in self._watch.entries:
            name, dot, _ = key.partition(".")
            if not dot or name not in jobs:
                continue
            record, job = self._record(key), jobs[name]
            # Behind the last shard is the claim of whoever finishes the job.
            if isinstance(record, ShardRecord) and record.job_ms == job.created_ms and record.shard < job.num_shards:
                found[name].append(record)
        return found

    def _job(self, job: JobRecord, shards: Sequence[ShardRecord] | None) -> Job:
        tally = None if shards is None else Tally.sum(shard.checkpoint.tally for shard in shards)
        return Job(
            name=job.name,
            state=job.state,
            model=job.card.model,
            created_ms=job.created_ms,
            num_rows=job.num_rows,
            num_shards=job.num_shards,
            tally=tally,
            processes=num_processes(shards or (), time.time_ns() // 1_000_000),
            rows_per_s=None if tally is None else self._rows_per_s(job, tally),
        )

    def _rows_per_s(self, job: JobRecord, tally: Tally) -> float | None:
        if job.state != "running":
            self._rates.pop((job.name, job.created_ms), None)
            return None
        rate = self._rates.setdefault((job.name, job.created_ms), Rate(_ROWS_S))
        rate.add(time.monotonic(), tally.rows)
        return rate.per_s


def _parsed(key: str, entry: Entry) -> JobRecord | ShardRecord | None:
    try:
        if "." not in key:
            return JobRecord.from_json(entry.value)
        return replace(ShardRecord.from_json(entry.value), written_ms=entry.written_ms)
    except JobConflict as error:
        logger.warning("%r of the jobs is left out: %s", key, error)
        return None
