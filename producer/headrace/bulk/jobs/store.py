"""The jobs that the fleet knows, in the KV bucket hr_jobs: `<job>` has a job's record, `<job>.<shard>` a shard's.

Knows which change of a record is allowed, and that several processes make them at once. Does not know who takes which
shard (claim.py), nor what a job does.
"""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from headrace_contracts import subjects
from headrace_contracts.errors import InvalidName
from nats.aio.client import Client as NatsClient
from nats.js.errors import BucketNotFoundError

from headrace.bulk.cut import Span
from headrace.bulk.jobs import leftovers
from headrace.bulk.jobs.bucket import Bucket, Entry, Moved
from headrace.bulk.jobs.record import FINISHED, JobRecord, ShardRecord, State, Tally
from headrace.bulk.jobs.watch import Watch, watching
from headrace.errors import InputError, JobConflict

logger = logging.getLogger(__name__)


class Jobs:
    """The jobs of the fleet.

    All methods wait while nats-server is away, for ever; whoever tires of that cancels them. All raise ConnectionFailed
    when the connection is closed for good, JobConflict when a record cannot be read, and InputError for a name that no
    job can have.
    """

    def __init__(self, nats: NatsClient) -> None:
        self.nats = nats
        self.bucket = Bucket(nats)

    async def check(self, record: JobRecord) -> bool:
        """See that a job may begin, or be joined.

        Returns:
            Whether it would be a new one, with nothing of it done.

        Raises:
            JobConflict: another job of this name is under way; the text says what differs.
        """
        entry = await self.bucket.get(_checked(record.name))
        return entry is None or _is_other(JobRecord.from_json(entry.value), record)

    async def begin(self, record: JobRecord) -> JobRecord:
        """Create a job, or join the one that is there; one that is paused stays paused.

        One that had ended runs again. If it did something else it makes way for this one, and nothing of it is left to
        whoever works on this one, since a shard's record says of which job it is.

        Returns:
            Its record as it now is.

        Raises:
            JobConflict: another job of this name is under way; the text says what differs.
        """
        key = _checked(record.name)
        while True:
            await self.bucket.create()
            entry = await self.bucket.get(key)
            if entry is None:
                new = record
            else:
                there = JobRecord.from_json(entry.value)
                if _is_other(there, record):
                    new = replace(record, created_ms=max(record.created_ms, there.created_ms + 1))
                elif there.state not in FINISHED:
                    return there
                else:
                    new = replace(there, state="running", reason=None, changed_ms=_now_ms())
            try:
                await self.bucket.put(key, new.to_json(), entry)
            except Moved:
                continue
            return new

    async def get(self, name: str) -> JobRecord:
        """The record of a job.

        Raises:
            InputError: there is no such job.
        """
        return (await self._found(name))[0]

    async def list(self) -> list[JobRecord]:
        """All jobs, by name; those whose record cannot be read are left out, with a warning."""
        found = [_readable(key, entry) for key, entry in sorted((await self._entries("*")).items())]
        return [record for record in found if record is not None]

    async def set_state(
        self, name: str, state: State, reason: str | None = None, *, created_ms: int | None = None
    ) -> JobRecord:
        """Say that a job should run, pause or end, or that it has ended.

        Args:
            name: of the job.
            state: which it should have.
            reason: why, for people.
            created_ms: of the job that is meant; None takes whichever has the name.

        Returns:
            Its record as it now is; as it was if it was in that state already.

        Raises:
            InputError: there is no such job.
            JobConflict: it has ended, so nothing but beginning it again changes that; or another has taken its name.
        """
        while True:
            there, entry = await self._found(name)
            if created_ms not in {None, there.created_ms}:
                raise JobConflict(f"job {name!r} has ended, and another has taken its name")
            if there.state == state:
                return there
            if there.state in FINISHED:
                raise JobConflict(
                    f"job {name!r} is {there.state} and cannot become {state}: to run it again, repeat its "
                    "`headrace reindex` command"
                )
            new = replace(there, state=state, reason=reason, changed_ms=_now_ms())
            try:
                await self.bucket.put(name, new.to_json(), entry)
            except Moved:
                continue
            return new

    @asynccontextmanager
    async def watch(self, name: str) -> "AsyncIterator[JobWatch]":
        """Follow the record of a job while the context lasts, over any loss of the connection.

        Raises:
            InputError: there is no such job.
            JobConflict: somebody removes all jobs meanwhile.
        """
        record = await self.get(name)
        try:
            async with watching(self.nats, name) as watch:
                yield JobWatch(watch, record)
        except BucketNotFoundError:
            raise JobConflict(
                f"the KV bucket hr_jobs was deleted, and job {name!r} with it: run the command again to begin it anew"
            ) from None

    async def shards(self, name: str) -> dict[int, ShardRecord]:
        """The records of a job's shards, by number; none of a shard that nobody has begun.

        Raises:
            InputError: there is no such job.
        """
        job = await self.get(name)
        records = [_shard(entry) for entry in (await self._entries(f"{name}.*")).values()]
        # Behind the last shard is the claim of whoever finishes the job.
        mine = [record for record in records if record.job_ms == job.created_ms and record.shard < job.num_shards]
        return {record.shard: record for record in sorted(mine, key=_number)}

    async def shard(self, name: str, number: int) -> ShardRecord | None:
        """The record of one shard of a job; None if nobody has begun it.

        Raises:
            InputError: there is no such job.
        """
        job = await self.get(name)
        entry = await self.bucket.get(shard_key(name, number))
        record = None if entry is None else _shard(entry)
        return None if record is None or record.job_ms != job.created_ms else record

    async def forget(self, name: str) -> None:
        """Remove a job and its shards, also one whose record cannot be read, and what waits in the broker for it.

        What is in its sink stays. Processes at work on it give it up.

        Raises:
            InputError: there is no such job.
        """
        entry = await self.bucket.get(_checked(name))
        if entry is None:
            raise _no_such_job(name)
        # The job first: a process that meets a shard without its job takes no other.
        await self.bucket.forget(name)
        for key in await self._entries(f"{name}.*"):
            await self.bucket.forget(key)
        record = _readable(name, entry)
        await leftovers.purge(self.nats, name, None if record is None else record.card.model)

    async def reopen(self, name: str, shard: int, span: Span, tally: Tally = Tally()) -> None:  # noqa: B008 - frozen
        """Have a window done again that was taken for done. Who works on the shard loses it.

        Args:
            name: of the job.
            shard: its number.
            span: the window.
            tally: what was counted for it, and will be again.

        Raises:
            InputError: there is no such job.
        """
        key = shard_key(name, shard)
        job = await self.get(name)
        while (entry := await self.bucket.get(key)) is not None:
            there = ShardRecord.from_json(entry.value)
            point = there.checkpoint
            if there.job_ms != job.created_ms or not (point.is_done or point.spans.end_of(span.window)):
                return
            kept = replace(point, spans=point.spans.minus(span), tally=point.tally.minus(tally), is_done=False)
            try:
                await self.bucket.put(key, replace(there, owner=None, checkpoint=kept).to_json(), entry)
            except Moved:
                continue
            return

    async def _found(self, name: str) -> tuple[JobRecord, Entry]:
        entry = await self.bucket.get(_checked(name))
        if entry is None:
            raise _no_such_job(name)
        return JobRecord.from_json(entry.value), entry

    async def _entries(self, keys: str) -> dict[str, Entry]:
        if not await self.bucket.is_there():
            return {}
        try:
            async with watching(self.nats, keys) as watch:
                return dict(watch.entries)
        except BucketNotFoundError:
            return {}


class JobWatch:
    """A job's record as it is now. Use Jobs.watch."""

    def __init__(self, watch: Watch, record: JobRecord) -> None:
        self._watch = watch
        self._name = record.name
        self._created_ms = record.created_ms
        self._last = record
        self._shown = self.record

    @property
    def record(self) -> JobRecord:
        """The latest record. A job that was removed reads as cancelled, and so does one that another took the place of.

        Raises:
            JobConflict: it cannot be read.
        """
        entry = self._watch.entries.get(self._name)
        found = None if entry is None else JobRecord.from_json(entry.value)
        if found is None or found.created_ms != self._created_ms:
            return replace(self._last, state="cancelled", reason="the job was removed with `headrace job rm`")
        self._last = found
        return found

    async def changed(self) -> None:
        """Wait until the record is another one than when this last returned, or than at the beginning.

        Raises:
            JobConflict: it cannot be read.
        """
        while (now := self.record) == self._shown:
            await self._watch.changed()
        self._shown = now


def shard_key(job: str, shard: int) -> str:
    """The key of a shard's record.

    Raises:
        InputError: no job can have this name.
    """
    return f"{_checked(job)}.{shard}"


def _checked(name: str) -> str:
    try:
        return subjects.token(name, "job")
    except InvalidName as error:
        raise InputError(str(error)) from None


def _is_other(there: JobRecord, wanted: JobRecord) -> bool:
    """Whether a job does something else than is wanted, and has ended.

    Raises:
        JobConflict: it has not.
    """
    differing = there.differences(wanted)
    if differing and there.state not in FINISHED:
        raise JobConflict(
            f"job {wanted.name!r} is under way and does something else: {'; '.join(differing)}. Choose another --job, "
            f"or end that one with `headrace job cancel {wanted.name}`"
        )
    return bool(differing)


def _no_such_job(name: str) -> InputError:
    return InputError(f"there is no job {name!r}: `headrace job ls` lists those that are")


def _readable(key: str, entry: Entry) -> JobRecord | None:
    try:
        return JobRecord.from_json(entry.value)
    except JobConflict as error:
        logger.warning("job %r is left out: %s", key, error)
        return None


def _shard(entry: Entry) -> ShardRecord:
    return replace(ShardRecord.from_json(entry.value), written_ms=entry.written_ms)


def _number(record: ShardRecord) -> int:
    return record.shard


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
