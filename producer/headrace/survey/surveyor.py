"""Takes surveys of a fleet over one connection: all parts side by side, each within its time.

Knows what needs what. How a part is read is in the file of its name.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace_contracts import ModelSpec, subjects
from nats.aio.client import Client as NatsClient

from headrace.survey.broker import read_account, read_broker
from headrace.survey.consumers import Consumer, read_consumers
from headrace.survey.crew import LISTEN_S, Crew
from headrace.survey.dead_letters import dead_counts
from headrace.survey.jobs import JobsOfFleet
from headrace.survey.models import Models
from headrace.survey.parts import PARTS, Parts
from headrace.survey.presences import Presences
from headrace.survey.queues import Queue, queues
from headrace.survey.servers import read_servers
from headrace.survey.streams import Listing, listing
from headrace.survey.survey import Survey

_LOST = "there is no connection to nats-server"


class Surveyor:
    """Looks at one fleet again and again, one survey at a time; use `surveying`."""

    def __init__(self, nats: NatsClient, monitors: Sequence[str], listen_s: float) -> None:
        self._nats = nats
        self._monitors = monitors
        self._models = Models(nats)
        self._presences = Presences(nats, listen_s)
        self._jobs = JobsOfFleet(nats)
        self._is_lost = asyncio.Event()
        self._names: set[str] = set()

    async def begin(self) -> None:
        """Listen to workers from now on."""
        await self._presences.listen()

    async def end(self) -> None:
        """Stop what goes on between surveys."""
        await self._jobs.close()

    async def all_heard(self) -> None:
        """Wait until every worker that is there has had the time to say so."""
        await self._presences.all_heard()

    def lost(self) -> None:
        """The connection is lost: a survey that is under way need not wait for answers any more."""
        self._is_lost.set()

    async def take(self) -> Survey:
        """Look at all of it, within ten seconds. A part that does not answer says why; none raises."""
        self._is_lost.clear()
        if not self._nats.is_connected:
            return await without_broker(_LOST, self._monitors)
        looking = asyncio.create_task(self._look())
        losing = asyncio.create_task(self._is_lost.wait())
        try:
            await asyncio.wait((looking, losing), return_when=asyncio.FIRST_COMPLETED)
            return looking.result() if looking.done() else await without_broker(_LOST, self._monitors)
        finally:
            looking.cancel()
            losing.cancel()

    async def _look(self) -> Survey:
        began_s, parts = time.monotonic(), Parts()
        async with asyncio.TaskGroup() as tasks:
            broker = tasks.create_task(parts.read("broker", read_broker(self._nats)))
            account = tasks.create_task(parts.read("account", read_account(self._nats)))
            dead = tasks.create_task(parts.read("dead_letters", dead_counts(self._nats)))
            jobs = tasks.create_task(parts.read("jobs", self._jobs.read()))
            servers = tasks.create_task(read_servers(self._monitors))
            stored = tasks.create_task(self._stored(parts))
        found = stored.result()
        return Survey(
            broker=broker.result(),
            account=account.result(),
            streams=None if found.listing is None else found.listing.streams,
            silent_streams=() if found.listing is None else found.listing.silent,
            queues=found.queues,
            models=found.models,
            crews=await parts.read("fleet", self._crews(found)),
            dead_letters=dead.result(),
            jobs=jobs.result(),
            servers=servers.result(),
            missing=parts.missing,
            taken_s=time.time(),
            took_s=time.monotonic() - began_s,
        )

    async def _stored(self, parts: Parts) -> "_Stored":
        """What is read of the NATS streams once they are listed."""
        there = await parts.read("streams", listing(self._nats))
        if there is None:
            for part in ("consumers", "models"):
                parts.missing[part] = "the NATS streams could not be listed"
            return _Stored()
        consumers: dict[str, Consumer] = {}
        with_workers = [name for name in there.streams if subjects.queue_of(name) is not None]
        async with asyncio.TaskGroup() as tasks:
            models = tasks.create_task(parts.read("models", self._models.read(there.streams)))
            tasks.create_task(parts.read("consumers", read_consumers(self._nats, with_workers, consumers)))
        return _Stored(there, queues(there.streams.values(), consumers), models.result())

    async def _crews(self, stored: "_Stored") -> Mapping[str, Crew]:
        names = {spec.name for spec in stored.models or ()} | {queue.model for queue in stored.queues or ()}
        if stored.models is None:  # not known this time: what was heard of those from before is not to be forgotten
            names |= self._names
        self._names = names
        return self._presences.crews(names)


@dataclass(frozen=True, slots=True)
class _Stored:
    listing: Listing | None = None
    queues: tuple[Queue, ...] | None = None
    models: tuple[ModelSpec, ...] | None = None


@asynccontextmanager
async def surveying(
    nats: NatsClient, monitors: Sequence[str] = (), *, listen_s: float = LISTEN_S
) -> AsyncIterator[Surveyor]:
    """A surveyor while the context lasts.

    Args:
        nats: a connection that reconnects by itself.
        monitors: URLs of the monitoring of nats-servers; see servers.monitor_urls.
        listen_s: seconds until all workers have been heard, one and a half of the intervals that they announce
            themselves in. Before, and so long after each reconnection, a survey has no crews.
    """
    surveyor = Surveyor(nats, monitors, listen_s)
    await surveyor.begin()
    try:
        yield surveyor
    finally:
        await surveyor.end()


async def without_broker(reason: str, monitors: Sequence[str] = ()) -> Survey:
    """A survey where there is no connection to nats-server, for that reason: only of what monitoring says."""
    began_s = time.monotonic()
    servers = await read_servers(monitors)
    missing = dict.fromkeys(PARTS, reason)
    return Survey(taken_s=time.time(), took_s=time.monotonic() - began_s, servers=servers, missing=missing)


async def take(nats: NatsClient, monitors: Sequence[str] = (), *, listen_s: float = LISTEN_S) -> Survey:
    """One survey, with all who are there: it listens to workers for so long first."""
    async with surveying(nats, monitors, listen_s=listen_s) as surveyor:
        await surveyor.all_heard()
        return await surveyor.take()
