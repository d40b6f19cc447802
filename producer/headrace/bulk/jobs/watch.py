"""What is under some keys of the KV bucket of jobs, now and after each change.

Knows JetStream's push consumers: heartbeats, gaps, and setting one up anew. nats-py's own watcher takes a bucket for
empty when the values overtake its consumer info, and needs up to twenty seconds to see that its consumer is gone. Does
not know what the values mean.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.errors import BucketNotFoundError
from nats.js.kv import KV_MARKER_REASON, KV_OP

from headrace.bulk.jobs.bucket import PREFIX, STREAM, Entry
from headrace.bulk.patience import patiently

_HEARTBEAT_S = 1.0
# The broker forgets a consumer that nobody listens to after this long.
_INACTIVE_S = 30.0
_HEARTBEAT = "100"


class _Silent(NatsError):
    """Raised when a consumer must be set up anew."""


class Watch:
    """The entries of some keys as they are now. Use `watching`.

    Attributes:
        entries: by key; those that were removed are not in it.
        life: another number whenever the watch had to be set up anew: what happened before was not seen as it happened.
    """

    def __init__(self, nats: NatsClient, keys: tuple[str, ...]) -> None:
        self.entries: dict[str, Entry] = {}
        self.life = 0
        self._nats = nats
        self._keys = keys
        self._is_following = False
        self._has_changed = asyncio.Event()
        self._is_complete = asyncio.Event()

    async def changed(self) -> None:
        """Wait until `entries` or `life` are no longer what they were when this was last called."""
        await self._has_changed.wait()
        self._has_changed.clear()

    @property
    def is_live(self) -> bool:
        """Whether changes are seen as they happen."""
        return self._is_following and self._nats.is_connected

    async def complete(self) -> None:
        """Wait until all that was there at the beginning is in `entries`."""
        await self._is_complete.wait()

    async def run(self) -> None:
        """Keep it up to date until cancelled.

        Raises:
            BucketNotFoundError: there is no bucket.
            ConnectionFailed: the connection is closed for good.
        """
        await patiently(self._nats, self._live)

    async def _live(self) -> NoReturn:
        """Set a consumer up and follow it until it falls silent."""
        arrived: asyncio.Queue[Msg] = asyncio.Queue()
        inbox = self._nats.new_inbox()
        # Limits off: a bucket is small, and a gap would only have it read again.
        inflow = await self._nats.subscribe(inbox, cb=arrived.put, pending_msgs_limit=0, pending_bytes_limit=0)
        name = None
        try:
            info = await self._consumer(inbox)
            name = info["name"]
            is_empty = info["num_pending"] == 0 and info["delivered"]["consumer_seq"] == 0
            await self._follow(arrived, is_empty=is_empty)
        finally:
            self._is_following = False
            with contextlib.suppress(NatsError, OSError):
                await inflow.unsubscribe()
                if name is not None:
                    await self._nats.publish(f"$JS.API.CONSUMER.DELETE.{STREAM}.{name}")

    async def _consumer(self, inbox: str) -> dict[str, Any]:
        config = {
            "deliver_subject": inbox,
            "deliver_policy": "last_per_subject",
            "filter_subjects": [f"{PREFIX}{key}" for key in self._keys],
            "ack_policy": "none",
            "max_deliver": 1,
            "idle_heartbeat": int(_HEARTBEAT_S * 1e9),
            "inactive_threshold": int(_INACTIVE_S * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        found = await api(self._nats, f"CONSUMER.CREATE.{STREAM}", {"stream_name": STREAM, "config": config})
        if found is None:
            raise BucketNotFoundError
        return found

    async def _follow(self, arrived: "asyncio.Queue[Msg]", *, is_empty: bool) -> NoReturn:
        """Take in what comes until it stops coming, or some of it got lost."""
        entries: dict[str, Entry] = {}
        seen = 0
        if is_empty:
            self._begin(entries)
        while True:
            message = await _next(arrived)
            headers = message.headers or {}
            if "Status" in headers:
                _check_heartbeat(headers, seen)
                if self.entries is not entries:
                    self._begin(entries)  # nothing is left to come: the last of it was removed meanwhile
                continue
            meta = message.metadata
            if meta.sequence.consumer != seen + 1:
                raise _Silent("something got lost on the way")
            seen += 1
            _enter(entries, message)
            if self.entries is entries:
                self._has_changed.set()
            # Counting what was there when the consumer was made would not do: a key that is written again comes again,
            # before another has come at all.
            elif meta.num_pending == 0:
                self._begin(entries)

    def _begin(self, entries: dict[str, Entry]) -> None:
        """All that was there has come."""
        self.entries = entries
        self.life += 1
        self._is_following = True
        self._is_complete.set()
        self._has_changed.set()


async def _next(arrived: "asyncio.Queue[Msg]") -> Msg:
    try:
        async with asyncio.timeout(3 * _HEARTBEAT_S):
            return await arrived.get()
    except TimeoutError:
        raise _Silent("no heartbeat came") from None


def _enter(entries: dict[str, Entry], message: Msg) -> None:
    """Take in a new value, or a removal: that is a message too, with a header and no value."""
    key, found = message.subject.removeprefix(PREFIX), message.headers or {}
    if KV_OP in found or KV_MARKER_REASON in found:
        entries.pop(key, None)
    else:
        meta = message.metadata
        entries[key] = Entry(message.data, meta.sequence.stream, int(meta.timestamp.timestamp() * 1000))


def _check_heartbeat(headers: Mapping[str, str], seen: int) -> None:
    """See that it is one, and that nothing got lost before it."""
    if headers["Status"] != _HEARTBEAT or headers.get("Nats-Last-Consumer", str(seen)) != str(seen):
        raise _Silent(f"its consumer ended, or something got lost on the way: {dict(headers)}")


@asynccontextmanager
async def watching(nats: NatsClient, *keys: str) -> AsyncIterator[Watch]:
    """Watch keys, in which `*` stands for what is between two dots, while the context lasts.

    Entered once all that is there has been read. If the watch fails, whoever waits in the context is told by what it
    raises: see Watch.run.
    """
    watch = Watch(nats, keys)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watch.run())
            await watch.complete()
            yield watch
            running.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
