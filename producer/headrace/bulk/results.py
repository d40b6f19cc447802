"""The results of one shard, as workers put them into HR_RESULTS, and their acks.

Knows the consumer: made anew by whoever takes the shard over, and after each reconnection, so that it begins with all
that is not acked. Knows no replies, nor when one may be acked: what is never acked comes again.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Iterable

from headrace_contracts import subjects, topology
from headrace_contracts.api import api
from headrace_contracts.connection import Link
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from headrace.pauses import Pauses

_BATCH = 256
_EXPIRES_S = 5.0
_STREAM = topology.RESULTS_STREAM
_ACK = b"+ACK"


class Results:
    """Those of one shard of one job."""

    def __init__(self, nats: NatsClient, link: Link, job: str, shard: int) -> None:
        self._nats = nats
        self._link = link
        self._job = job
        self._shard = shard
        self._name = ""
        self._ended: asyncio.Future[None] | None = None
        self._is_stale = True
        self._taking: Callable[[Msg], None] = lambda _: None

    async def run(self, take: Callable[[Msg], None]) -> None:
        """Hand over each result that comes, for ever; cancel to end."""
        self._taking = take
        inbox = self._nats.new_inbox()
        # Limits off: what can come is bounded by the windows on their way.
        await self._nats.subscribe(inbox, cb=self._on_message, pending_msgs_limit=0, pending_bytes_limit=0)
        pauses = Pauses()
        while True:
            await self._link.up.wait()
            try:
                if self._is_stale:
                    self._is_stale = False
                    await self._make_consumer()
                await self._pull(inbox)
                pauses = Pauses()
            except (NatsError, TimeoutError):
                self._is_stale = True
                await asyncio.sleep(pauses.take_s())

    def renew(self) -> None:
        """Make the consumer anew: what was delivered and not acked may never have come."""
        self._is_stale = True
        self._end()

    async def ack(self, acks: Iterable[str]) -> None:
        """Let the broker forget results, by their ack subjects. Should it not hear of one, that is for the end."""
        with contextlib.suppress(NatsError):
            for subject in acks:
                await self._nats.publish(subject, _ACK)

    async def close(self) -> None:
        """All is done: forget what is left, copies of what was answered twice, and the consumer."""
        with contextlib.suppress(NatsError, TimeoutError):
            await api(self._nats, f"STREAM.PURGE.{_STREAM}", {"filter": subjects.results(self._job, self._shard)})
            await api(self._nats, f"CONSUMER.DELETE.{_STREAM}.{self._name}")

    async def num_waiting(self) -> int:
        """Results in the broker that this process has not been sent yet."""
        found = await api(self._nats, f"CONSUMER.INFO.{_STREAM}.{self._name}")
        return 0 if found is None else int(found["num_pending"])

    async def _pull(self, inbox: str) -> None:
        self._ended = asyncio.get_running_loop().create_future()
        request = {"batch": _BATCH, "expires": int(_EXPIRES_S * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.{self._name}"
        await self._nats.publish(subject, json.dumps(request).encode(), reply=inbox)
        self._num_left = _BATCH
        async with asyncio.timeout(2 * _EXPIRES_S):
            await self._ended

    async def _on_message(self, message: Msg) -> None:
        if not message.reply:
            status = (message.headers or {}).get("Status", "")
            # 404 and 408: nothing more came in time. Anything else says that the consumer is not there.
            self._is_stale |= status not in {"404", "408"}
            self._end()
            return
        self._taking(message)
        self._num_left -= 1
        if not self._num_left:
            self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _make_consumer(self) -> None:
        """Make it, in place of any that is there."""
        # A name of its own each time: pulls of a process that was given up for dead must not reach this one.
        self._name = f"{self._job}-{self._shard}-{secrets.token_hex(4)}"
        config = topology.results_consumer(self._name, self._job, self._shard)
        wanted = {"stream_name": _STREAM, "config": config, "action": "create"}
        subject = f"CONSUMER.CREATE.{_STREAM}.{self._name}.{config['filter_subject']}"
        for name in await self._older():
            await api(self._nats, f"CONSUMER.DELETE.{_STREAM}.{name}")
        await api(self._nats, subject, wanted)

    async def _older(self) -> list[str]:
        found: list[str] = []
        while True:
            page = await api(self._nats, f"CONSUMER.NAMES.{_STREAM}", {"offset": len(found)})
            names = [] if page is None else page["consumers"] or []
            found += names
            if page is None or not names or len(found) >= page["total"]:
                break
        return [name for name in found if name.rsplit("-", 1)[0] == f"{self._job}-{self._shard}"]
