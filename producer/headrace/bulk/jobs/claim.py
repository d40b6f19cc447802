"""Which process works on which shard of a job.

Knows leases: an owner's beat goes up while it lives, and who sees it stand still for too long may take the shard over.
Which of several takes it, and that a lost owner writes nothing more, is the broker's compare-and-set. No clocks are
compared: each process times the others' beats by its own. Does not know what is done with a shard.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace
from zlib import crc32

from nats.js.errors import BucketNotFoundError

from headrace.bulk.jobs.bucket import Bucket, Entry, Moved
from headrace.bulk.jobs.leases import Leases
from headrace.bulk.jobs.process import is_gone
from headrace.bulk.jobs.record import Checkpoint, JobRecord, Owner, ShardRecord
from headrace.bulk.jobs.store import Jobs, shard_key
from headrace.bulk.jobs.watch import Watch, watching
from headrace.errors import InputError, JobConflict, ShardLost

logger = logging.getLogger(__name__)

# An owner renews its lease so many times while it lasts: it may miss some.
_BEATS = 4


class Claim:
    """A shard that this process works on, from Claims.next on until it is released or lost.

    Attributes:
        shard: its number.
        checkpoint: how far it was when it was claimed.
    """

    def __init__(self, bucket: Bucket, key: str, record: ShardRecord, revision: int, lease_s: float) -> None:
        """Use Claims.next."""
        self.shard = record.shard
        self.checkpoint = record.checkpoint
        self._bucket = bucket
        self._key = key
        self._record = record
        self._revision = revision
        self._lease_s = lease_s
        self._writing = asyncio.Lock()
        self._is_lost = False
        self._seen_s = asyncio.get_running_loop().time()

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be no longer this process's."""
        return self._is_lost

    @property
    def token(self) -> str:
        """What no other claim of any shard of the job has, nor an earlier one of this process."""
        return f"{_claim(self._record)[0]}.{self._record.term}"

    async def keep(self) -> None:
        """Renew the lease until cancelled.

        Raises:
            ShardLost: another process has taken the shard over, or the job was removed.
        """
        while True:
            await asyncio.sleep(self._lease_s / _BEATS)
            await self._beat()

    async def confirm(self) -> None:
        """See that it is still this process's, which may have stood still for longer than its lease.

        Raises:
            ShardLost: another process has taken the shard over, or the job was removed.
        """
        # As long as beats come on time nobody can have taken it.
        if asyncio.get_running_loop().time() > self._seen_s + self._lease_s / 2:
            await self._beat()

    async def _beat(self) -> None:
        async with self._writing:
            await self._write(replace(self._record, beat=self._record.beat + 1))

    async def save(self, checkpoint: Checkpoint) -> None:
        """Remember how far the shard is. Once this returns, whoever goes on with the shard goes on from there.

        Raises:
            ShardLost: another process has taken the shard over, or the job was removed.
        """
        async with self._writing:
            await self._write(replace(self._record, beat=self._record.beat + 1, checkpoint=checkpoint))

    async def release(self) -> None:
        """Give it up, so that another process may take it at once; nothing happens if it was lost."""
        async with self._writing:
            with contextlib.suppress(ShardLost):
                await self._write(replace(self._record, owner=None))
            self._is_lost = True

    async def _write(self, record: ShardRecord) -> None:
        while not self._is_lost:
            sent_s = asyncio.get_running_loop().time()
            try:
                self._revision = await self._bucket.put(self._key, record.to_json(), self._revision)
            except Moved:
                await self._look()
            else:
                self._record, self._seen_s = record, sent_s
                return
        raise ShardLost(
            f"shard {self.shard} was taken over by another process, which saw no sign of this one for {self._lease_s:g}"
            " s, or its job was removed: what this process has written stays, and nothing is lost"
        )

    async def _look(self) -> None:
        """Find out whether it was we who wrote: the answer to an earlier write may have been lost."""
        entry = await self._bucket.get(self._key)
        there = None if entry is None else ShardRecord.from_json(entry.value)
        if entry is not None and there is not None and _claim(there) == _claim(self._record):
            self._revision = entry.revision
        else:
            self._is_lost = True


class Claims:
    """Claims the shards of a job, one after the other, for one process."""

    def __init__(
        self, jobs: Jobs, job: str, num_shards: int, owner: Owner, lease_s: float = 20, *, first_shard: int = 0
    ) -> None:
        """Claim nothing yet.

        Args:
            jobs: where the shards are claimed.
            job: its name; it must have been begun.
            num_shards: how many it has.
            owner: this process.
            lease_s: after this long without a sign of its owner a shard is free. The same for all processes of a job.
            first_shard: the number of the first of them. That behind a job's last shard is for what is done once all
                are, by one process at a time.
        """
        self._jobs = jobs
        self._job = job
        self._owner = owner
        self._lease_s = lease_s
        self._known: dict[int, tuple[Entry, ShardRecord]] = {}
        # Each process looks at another one first: they would all run after the same.
        first = crc32(owner.process.encode()) % max(1, num_shards)
        self._order = [first_shard + number for number in (*range(first, num_shards), *range(first))]

    async def next(self) -> Claim | None:
        """A shard that is free, once there is one; None once all are done.

        Those that somebody has begun come first. Waits while others hold all that is left.

        Raises:
            JobConflict: the job was removed, or a record of it cannot be read.
        """
        try:
            job = await self._jobs.get(self._job)
        except InputError:
            raise _removed(self._job) from None
        try:
            async with watching(self._jobs.nats, self._job, f"{self._job}.*") as watch:
                return await self._next(job, watch)
        except BucketNotFoundError:
            raise _removed(self._job) from None

    async def _next(self, job: JobRecord, watch: Watch) -> Claim | None:
        leases = Leases(self._lease_s)
        while True:
            entry = watch.entries.get(self._job)
            if entry is None or JobRecord.from_json(entry.value).created_ms != job.created_ms:
                raise _removed(self._job)
            # Record and entry of one moment: other processes go on while this one tries for a shard, and a claim is to
            # go by what it replaces.
            seen = {shard: self._seen(job, watch, shard) for shard in self._order}
            if all(record is not None and record.checkpoint.is_done for record, _ in seen.values()):
                return None
            for shard, (record, there) in sorted(seen.items(), key=lambda item: item[1][0] is None):
                if record is not None and not self._is_free(record, watch, leases):
                    continue
                claim = await self._claim(job, shard, record, there)
                if claim is not None:
                    return claim
            await self._wait(watch, leases)

    def _seen(self, job: JobRecord, watch: Watch, shard: int) -> tuple[ShardRecord | None, Entry | None]:
        """A shard's record, None where nobody has begun it for this very job, and the entry that a claim replaces."""
        entry = watch.entries.get(shard_key(self._job, shard))
        record = None if entry is None else self._parsed(shard, entry)
        return (None if record is None or record.job_ms != job.created_ms else record), entry

    def _parsed(self, shard: int, entry: Entry) -> ShardRecord:
        """Its record. Most are the same as when they were last looked at, and they may be many."""
        known = self._known.get(shard)
        if known is None or known[0] != entry:
            known = self._known[shard] = entry, ShardRecord.from_json(entry.value)
        return known[1]

    def _is_free(self, record: ShardRecord, watch: Watch, leases: Leases) -> bool:
        """Whether nobody works on it, as far as this process has seen."""
        if record.checkpoint.is_done or record.owner is None or is_gone(record.owner):
            leases.forget(record.shard)
            return not record.checkpoint.is_done
        now_s = asyncio.get_running_loop().time()
        return leases.has_run_out(record, now_s, life=watch.life, is_blind=not watch.is_live)

    async def _claim(self, job: JobRecord, shard: int, record: ShardRecord | None, there: Entry | None) -> Claim | None:
        """Take it, unless somebody else was faster."""
        key = shard_key(self._job, shard)
        new = ShardRecord(
            shard=shard,
            owner=self._owner,
            beat=0 if record is None else record.beat + 1,
            checkpoint=Checkpoint() if record is None else record.checkpoint,
            term=1 if record is None else record.term + 1,
            job_ms=job.created_ms,
        )
        try:
            revision = await self._jobs.bucket.put(key, new.to_json(), there)
        except Moved:
            entry = await self._jobs.bucket.get(key)
            if entry is None or entry.value != new.to_json():
                return None
            revision = entry.revision
        logger.info("claimed shard %d of job %s", shard, self._job)
        return Claim(self._jobs.bucket, key, new, revision, self._lease_s)

    async def _wait(self, watch: Watch, leases: Leases) -> None:
        """Wait until a shard may have become free."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(leases.next_end_s()):
                await watch.changed()


def _claim(record: ShardRecord) -> tuple[str | None, int, int]:
    """What tells one claim of a shard from all others."""
    return None if record.owner is None else record.owner.process, record.term, record.job_ms


def _removed(job: str) -> JobConflict:
    return JobConflict(f"job {job!r} was removed meanwhile; run the command again to begin it anew")
