"""The consumer by which a shard's results are read.

Knows how it comes to be in place of any other, whatever a cluster made of earlier requests. Knows no pulls, and not
what results are for.
"""

import contextlib
import secrets
from time import monotonic

from headrace_contracts import subjects, topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError

from headrace.bulk.queued import num_stored

_STREAM = topology.RESULTS_STREAM
# The servers of a cluster choose one to lead it in up to nine seconds.
_PATIENCE_S = 15.0
# Of one without a leader nobody says that it is gone, and it goes all the same.
_REMOVE_S = 2.0


class NoConsumer(NatsError):
    """Raised when the consumer is not there, or not ready."""


class ResultsConsumer:
    """That of one shard of one job.

    Attributes:
        name: of the consumer that was asked for last; empty as long as none was.
    """

    def __init__(self, nats: NatsClient, job: str, shard: int) -> None:
        self.name = ""
        self._nats = nats
        self._job = job
        self._shard = shard
        self._keeps_name_until_s = 0.0

    async def make(self) -> None:
        """Make it, in place of any that is there; to be called again if it fails.

        Raises:
            nats.errors.Error: the server cannot be reached, or refuses.
        """
        # A name of its own each time: pulls of a process that was given up for dead must not reach this one. But one
        # that nobody answered for is asked for again: it may be on its way, and until it is there no other may come.
        if monotonic() >= self._keeps_name_until_s:
            self.name = f"{self._job}-{self._shard}-{secrets.token_hex(4)}"
            self._keeps_name_until_s = monotonic() + _PATIENCE_S
        await self._remove_all_but(self.name)
        config = topology.results_consumer(self.name, self._job, self._shard)
        subject = f"CONSUMER.CREATE.{_STREAM}.{self.name}.{config['filter_subject']}"
        if await api(self._nats, subject, {"stream_name": _STREAM, "config": config, "action": "create"}) is None:
            raise NoConsumer(f"there is no {_STREAM}: workers make it when they start")
        self._keeps_name_until_s = 0.0

    async def num_waiting(self) -> int:
        """Results in the broker that nobody was sent yet.

        Raises:
            nats.errors.Error: the server cannot be reached, or refuses.
        """
        info = await api(self._nats, f"CONSUMER.INFO.{_STREAM}.{self.name}") if self.name else None
        if info is not None:
            return int(info["num_pending"])
        # Without a consumer they wait all the same.
        return await num_stored(self._nats, _STREAM, subjects.results(self._job, self._shard))

    async def close(self) -> None:
        """All is done: forget what is left, copies of what was answered twice, and the consumer."""
        with contextlib.suppress(NatsError, OSError):
            await api(self._nats, f"STREAM.PURGE.{_STREAM}", {"filter": subjects.results(self._job, self._shard)})
            await self._remove_all_but("")

    async def _remove_all_but(self, kept: str) -> None:
        for name in {*await consumers(self._nats, self._job, self._shard)} - {kept}:
            with contextlib.suppress(TimeoutError):
                await api(self._nats, f"CONSUMER.DELETE.{_STREAM}.{name}", timeout_s=_REMOVE_S)


async def consumers(nats: NatsClient, job: str, shard: int | None = None) -> list[str]:
    """Names of the consumers of a job's results, of one of its shards or of all.

    Raises:
        nats.errors.Error: the server cannot be reached, or refuses.
    """
    found: list[str] = []
    while True:
        page = await api(nats, f"CONSUMER.NAMES.{_STREAM}", {"offset": len(found)})
        names = [] if page is None else page["consumers"] or []
        found += names
        if page is None or not names or len(found) >= page["total"]:
            break
    # A name may itself end with a hyphen and a number.
    parts = {name: name.rsplit("-", 2) for name in found if name.count("-") >= 2}
    return [name for name, (of, number, _) in parts.items() if of == job and shard in {None, _number(number)}]


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
