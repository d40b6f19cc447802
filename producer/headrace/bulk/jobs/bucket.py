"""The KV bucket of jobs, with patience: what is asked of it is done once nats-server is there to do it.

Knows nats-py's KeyValue and what may come of a request whose answer was lost. Does not know what the values mean.
"""

from dataclasses import dataclass

from headrace_contracts import topology
from nats.aio.client import Client as NatsClient
from nats.js.api import KeyValueConfig
from nats.js.errors import (
    BadRequestError,
    BucketNotFoundError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NoStreamResponseError,
    NotFoundError,
)
from nats.js.kv import KeyValue

from headrace.bulk.patience import patiently

STREAM = f"KV_{topology.JOBS_BUCKET}"
PREFIX = f"$KV.{topology.JOBS_BUCKET}."

# What forgetting a job leaves behind is itself forgotten after so long: nobody still watches for it.
_MARKER_S = 24 * 3600.0


class Moved(Exception):
    """Raised when a key has another revision than the one to be replaced: somebody wrote it, perhaps we ourselves."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is under a key.

    Attributes:
        value: as it was written.
        revision: which write that was.
        written_ms: when, unix time by the broker's clock; 0 where it was not asked.
    """

    value: bytes
    revision: int
    written_ms: int = 0


class Bucket:
    """The bucket hr_jobs. All its methods wait while nats-server is away, for ever; whoever tires of that cancels them.

    All of them raise ConnectionFailed when the connection is closed for good, and BulkError when the server refuses.
    """

    def __init__(self, nats: NatsClient) -> None:
        self._nats = nats
        self._jetstream = nats.jetstream()
        self._bucket: KeyValue | None = None

    async def create(self) -> None:
        """Make it if it is not there, with as many copies as the bucket of models has."""
        await patiently(self._nats, self._create)

    async def is_there(self) -> bool:
        """Whether there is one; if there is not, there are no jobs."""
        try:
            await patiently(self._nats, self._opened)
        except BucketNotFoundError:
            return False
        return True

    async def get(self, key: str) -> Entry | None:
        """What is under a key; None if nothing is."""

        async def get() -> Entry | None:
            try:
                found = await (await self._opened()).get(key)
            except (KeyNotFoundError, BucketNotFoundError):
                return None
            return Entry(found.value or b"", found.revision or 0)

        return await patiently(self._nats, get)

    async def put(self, key: str, value: bytes, last: Entry | int | None) -> int:
        """Write a key whose revision is known, and return the new one.

        Args:
            key: which.
            value: what.
            last: the revision to be replaced; None or 0 where nothing is there, or no more.

        Raises:
            Moved: it has another revision; also when this very write was done and its answer was lost.
        """
        revision = last.revision if isinstance(last, Entry) else last

        async def put() -> int:
            try:
                bucket = await self._opened()
                return await (bucket.update(key, value, revision) if revision else bucket.create(key, value))
            except (KeyWrongLastSequenceError, BucketNotFoundError) as error:
                raise Moved(key) from error
            except NoStreamResponseError:
                self._bucket = None  # JetStream is not ready, or somebody removed the bucket: look
                raise

        return await patiently(self._nats, put)

    async def forget(self, key: str) -> None:
        """Remove a key."""

        async def purge() -> None:
            bucket = await self._opened()
            try:
                await bucket.purge(key, msg_ttl=_MARKER_S)
            except BadRequestError:
                await bucket.purge(key)  # an operator's bucket, in which nothing may have a time to live

        await patiently(self._nats, purge)

    async def _opened(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await self._jetstream.key_value(topology.JOBS_BUCKET)
        return self._bucket

    async def _create(self) -> None:
        try:
            await self._opened()
        except BucketNotFoundError:
            config = KeyValueConfig(bucket=topology.JOBS_BUCKET, history=1, replicas=await self._replicas())
            try:
                await self._jetstream.create_key_value(config)
            except BadRequestError:
                # Another process was faster, and saw another number of copies.
                await self._opened()

    async def _replicas(self) -> int:
        try:
            info = await self._jetstream.stream_info(f"KV_{topology.MODELS_BUCKET}")
        except NotFoundError:
            return 1
        return info.config.num_replicas or 1
