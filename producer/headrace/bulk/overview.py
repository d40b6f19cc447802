"""What a process shows that it does not see itself: what the others of its job did, and how much waits in the queue.

Knows whom to ask, and that no answer is no harm. Does not know who shows it.
"""

import asyncio
import logging

from headrace_contracts import subjects
from headrace_contracts.api import in_words
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace.bulk.jobs.record import Owner, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.progress import Progress
from headrace.bulk.queued import num_queued
from headrace.errors import HeadraceError

logger = logging.getLogger(__name__)

_EVERY_S = 2.0
# Of a job with many shards, reading them all is work for the broker.
_SHARDS_A_LOOK = 500


class Overview:
    """Looks around for one process of a job."""

    def __init__(self, nats: NatsClient, jobs: Jobs, job: str, model: str, progress: Progress, me: Owner) -> None:
        self._nats = nats
        self._jobs = jobs
        self._job = job
        self._model = model
        self._progress = progress
        self._me = me
        self._every_s = _EVERY_S

    async def look(self) -> Tally:
        """The tally of the whole job; the progress is told what of it others did."""
        shards = await self._jobs.shards(self._job)
        tally = Tally.sum(shard.checkpoint.tally for shard in shards.values())
        owners = {shard.owner.process for shard in shards.values() if shard.owner is not None}
        self._progress.processes = len(owners | {self._me.process})
        self._progress.rows_elsewhere = max(0, tally.rows - self._progress.rows_done)
        self._every_s = _EVERY_S * (1 + len(shards) // _SHARDS_A_LOOK)
        return tally

    async def run(self) -> None:
        """Look now and then, for ever; cancel to end."""
        chunks = subjects.batch_of_job(self._model, self._job)
        while True:
            try:
                await self.look()
                self._progress.chunks_queued = await num_queued(self._nats, self._model, chunks)
            except (NatsError, TimeoutError, HeadraceError) as error:
                logger.debug("cannot look around: %s", in_words(error))
            await asyncio.sleep(self._every_s)
