"""What waits in the broker for a bulk job that is no more: its chunks, which nobody needs run, and their results.

Knows the NATS streams and subjects. A later job of the same name must not find the results of this one.
"""

import asyncio
import contextlib
from functools import partial

from headrace_contracts import subjects, topology
from headrace_contracts.api import api
from headrace_contracts.errors import InvalidName
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace.bulk.patience import patiently
from headrace.bulk.queued import num_queued
from headrace.bulk.results_consumer import consumers
from headrace.pauses import Pauses

# For copies of chunks that workers have in hand when a job is done.
_DRAIN_S = 3.0


async def purge(nats: NatsClient, job: str, model: str | None) -> None:
    """Remove it; what workers have in hand may still bring a few results, which the broker keeps for some days.

    Args:
        nats: the connection.
        job: name of the job.
        model: whose queue has its chunks; None if that cannot be told any more.

    Raises:
        ConnectionFailed: the connection is closed for good.
        BulkError: nats-server refuses.
    """
    waiting = {topology.RESULTS_STREAM: subjects.results_of_job(job)}
    if model is not None:
        with contextlib.suppress(InvalidName):  # no queue has its chunks then
            # First, so that no worker makes results of them meanwhile.
            waiting = {subjects.batch_stream(model): subjects.batch_of_job(model, job), **waiting}
    for stream, those in waiting.items():
        await patiently(nats, partial(_purge, nats, stream, those))
    await patiently(nats, partial(_delete_consumers, nats, job))


async def drain(nats: NatsClient, job: str, model: str) -> None:
    """Let workers answer what they have in hand of a job that is done, for a moment: later nobody would remove that."""
    chunks, pauses = subjects.batch_of_job(model, job), Pauses()
    with contextlib.suppress(NatsError, TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while await num_queued(nats, model, chunks):  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(pauses.take_s())


async def _purge(nats: NatsClient, stream: str, those: str) -> None:
    await api(nats, f"STREAM.PURGE.{stream}", {"filter": those})


async def _delete_consumers(nats: NatsClient, job: str) -> None:
    for name in await consumers(nats, job):
        await api(nats, f"CONSUMER.DELETE.{topology.RESULTS_STREAM}.{name}")
