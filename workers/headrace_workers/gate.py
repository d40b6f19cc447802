"""Sets what a model's online NATS streams may hold.

Knows the JetStream calls: max_bytes is changed, all else stays as it is read. nats-server deletes nothing for it, where
discard is new, and pulls and acks go on (measured with 2.15). What the limit should be is in admission.py.
"""

import asyncio
import logging
from collections import defaultdict

from headrace_contracts import ModelSpec, subjects
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient

from headrace_workers.admission import Admission, Limit
from headrace_workers.fleet import View
from headrace_workers.patience import Patience

logger = logging.getLogger(__name__)


class Gate:
    """The limits of a model's online NATS streams."""

    def __init__(self, nats: NatsClient, spec: ModelSpec, admission: Admission) -> None:
        self._nats = nats
        self._streams = [subjects.online_stream(spec.name, *queue) for queue in spec.online_queues]
        self._admission = admission

    async def adjust(self, fleet: View, bytes_per_token: float, patience: Patience) -> None:
        """Set the limits that the fleet wants, where they are far from those that stand.

        Raises:
            nats.errors.Error: the server cannot be reached, or refuses.
        """
        found = {
            stream: self._admission.limit(fleet, bytes_per_token, patience.seconds(stream)) for stream in self._streams
        }
        limits = {stream: limit for stream, limit in found.items() if limit is not None}
        # Side by side: a server that is gone says nothing of those that it holds, and the others must not wait for it.
        ends = await asyncio.gather(*(self._set(*one) for one in limits.items()), return_exceptions=True)
        changed: defaultdict[Limit, list[str]] = defaultdict(list)
        for stream, end in zip(limits, ends, strict=True):
            if end is True:
                changed[limits[stream]].append(stream)
        for limit, streams in changed.items():
            logger.info("%s may hold %s bytes now: %s", ", ".join(streams), f"{limit.max_bytes:,}", limit.reason)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _set(self, stream: str, limit: Limit) -> bool:
        """Set one, if that is worth while; tells whether it was."""
        info = await api(self._nats, f"STREAM.INFO.{stream}")
        if info is None:
            return False  # it went with its server; whoever pulls from it provides it anew
        is_worth_while = self._admission.is_worth_while(info["config"]["max_bytes"], limit.max_bytes)
        if is_worth_while:
            await api(self._nats, f"STREAM.UPDATE.{stream}", info["config"] | {"max_bytes": limit.max_bytes})
        return is_worth_while
