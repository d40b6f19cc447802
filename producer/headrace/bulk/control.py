"""Whether a job may go on: somebody may have paused or cancelled it, from anywhere.

Knows the states of a job. Does not know where they are kept.
"""

import asyncio
from typing import Protocol

from headrace.bulk.jobs.record import JobRecord
from headrace.bulk.progress import Progress
from headrace.errors import JobEnded


class Watched(Protocol):
    """A job's record, as it stands now."""

    @property
    def record(self) -> JobRecord:
        """The latest."""
        ...

    async def changed(self) -> None:
        """Wait until it is another one."""
        ...


class Control:
    """The state of one job."""

    def __init__(self, watched: Watched, progress: Progress) -> None:
        self._watched = watched
        self._progress = progress
        self._may_go = asyncio.Event()
        self._look()

    async def may_go(self) -> None:
        """Wait while the job is paused."""
        await self._may_go.wait()

    async def run(self) -> None:
        """Follow the state, for ever; cancel to end.

        Raises:
            JobEnded: it was cancelled, or has failed in another process.
        """
        while True:
            self._look()
            await self._watched.changed()

    def _look(self) -> None:
        record = self._watched.record
        if record.state == "paused":
            self._may_go.clear()
            self._progress.stage = "paused"
        elif record.state in {"running", "done"}:
            self._may_go.set()
            self._progress.stage = "running"
        else:
            self._progress.stage = "cancelled" if record.state == "cancelled" else "failed"
            raise ended(record)


def ended(record: JobRecord) -> JobEnded:
    """What to say of a job that was cancelled, or has failed elsewhere."""
    how = "was cancelled" if record.state == "cancelled" else "has failed"
    why = record.reason or "without a reason"
    return JobEnded(f"job {record.name} {how} ({why}): the same command takes it up again")
