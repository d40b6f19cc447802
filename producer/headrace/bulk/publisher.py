"""Puts chunks into the batch queue, many at a time, and waits for room where there is none.

Knows PubAcks and atomic batches (ADR-50 of NATS): all chunks of one are stored or none, with one PubAck and one write
to the disk. Whatever is not confirmed is published again under the same message id, so that it is there once. Does not
know what a chunk holds.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from headrace_contracts import headers
from headrace_contracts.connection import Link
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, MaxPayloadError
from nats.errors import Error as NatsError

from headrace.bulk.progress import Progress
from headrace.bulk.room import check_chunk
from headrace.errors import AccessDenied, ConnectionFailed, JobFailed
from headrace.outcome import FULL, TOO_LARGE, ack_error
from headrace.pauses import Pauses

logger = logging.getLogger(__name__)

# Of an atomic batch; the server takes 1,000 messages, and holds what it has until the last one is there.
_MAX_MESSAGES = 100
_MAX_BYTES = 1024 * 1024
# Atomic batches at a time; the server allows 50 to a NATS stream, of all its producers.
_MAX_BATCHES = 4
_ACK_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A chunk, ready to be published.

    Attributes:
        subject: where.
        body: the chunk.
        headers: with a message id.
    """

    subject: str
    body: bytes
    headers: dict[str, str]


class Ack(Enum):
    """What the broker says of what was published."""

    STORED = auto()
    FULL = auto()
    APART = auto()  # as a batch it will not do; each alone may
    LATER = auto()  # not now, or nobody said so


class Publisher:
    """One process's way into the batch queue."""

    def __init__(self, nats: NatsClient, link: Link, inbox: str, progress: Progress) -> None:
        self._nats = nats
        self._progress = progress
        self._link = link
        self._inbox = inbox
        self._numbers = count()
        self._waiting: dict[str, asyncio.Future[Ack]] = {}
        self._batches = asyncio.Semaphore(_MAX_BATCHES)
        link.on_not_allowed = self._forbid

    async def open(self) -> None:
        """Subscribe to the inbox of PubAcks."""
        await self._nats.subscribe(f"{self._inbox}.*", cb=self._on_ack, pending_msgs_limit=0, pending_bytes_limit=0)

    async def publish(self, messages: Sequence[Message]) -> None:
        """Publish, in order as far as nothing goes wrong; returns once the broker has stored all of them.

        Raises:
            JobFailed: the broker will never take one.
            ConnectionFailed: the connection was closed.
        AccessDenied: this user may not publish it.
        """
        async with asyncio.TaskGroup() as tasks:
            for some in _portions(messages):
                await self._batches.acquire()
                tasks.create_task(self._insist(some)).add_done_callback(lambda _: self._batches.release())

    async def _insist(self, messages: Sequence[Message]) -> None:
        """Publish together until it is stored; where that does not do, in halves, or each apart."""
        pauses, level = Pauses(), logging.WARNING
        while (ack := await self._publish_batch(messages)) is not Ack.STORED:
            if ack is not Ack.FULL:  # to be full is what a bounded queue is for
                self._progress.retries += len(messages)
            if ack is Ack.APART and len(messages) > 1:
                for message in messages:
                    await self._insist([message])
                return
            if ack is Ack.FULL and len(messages) == 1:
                await check_chunk(self._nats, messages[0].subject, len(messages[0].body))
            elif ack is not Ack.FULL:
                logger.log(level, "the batch queue does not confirm chunks, to be sent again until it does")
                level = logging.DEBUG
            await asyncio.sleep(pauses.take_s())
            if ack is Ack.FULL and len(messages) > 1:
                middle = len(messages) // 2
                await self._insist(messages[:middle])
                await self._insist(messages[middle:])
                return

    async def _publish_batch(self, messages: Sequence[Message]) -> Ack:
        await self._link.up.wait()
        number, batch = str(next(self._numbers)), secrets.token_hex(8)
        acked: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        self._waiting[number] = acked
        last = len(messages)
        try:
            async with asyncio.timeout(_ACK_TIMEOUT_S):
                for place, message in enumerate(messages, 1):
                    is_last = place == last
                    batched = {} if last == 1 else _in_batch(batch, place, is_last=is_last)
                    reply = f"{self._inbox}.{number}" if is_last else ""
                    await self._nats.publish(message.subject, message.body, reply, message.headers | batched)
                return await acked
        except ConnectionClosedError:
            raise ConnectionFailed("the connection was closed") from None
        except MaxPayloadError as error:
            raise JobFailed(
                f"the broker refuses a chunk: {error}; workers need a smaller --max-chunk-tokens"
            ) from error
        except (NatsError, OSError):
            return Ack.LATER
        finally:
            del self._waiting[number]

    def _forbid(self, error: NotAllowed) -> None:
        """No chunk will ever be stored: whoever waits for that is told why."""
        violation = error.violation
        if violation.subject.lower().startswith(("hr.batch.", self._inbox.lower())):
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(AccessDenied(str(error)))

    async def _on_ack(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject.rsplit(".", 1)[-1])
        if waiting is None or waiting.done():
            return
        try:
            waiting.set_result(read_ack(message.data))
        except JobFailed as error:
            waiting.set_exception(error)


def read_ack(data: bytes) -> Ack:
    """A PubAck (JetStream API, PubAckResponse), or the status of a subject that nobody listens on.

    Raises:
        JobFailed: no later try will do better, or it is no PubAck.
    """
    if not data:
        return Ack.LATER
    try:
        error = ack_error(data)
    except ValueError as problem:
        raise JobFailed(f"the broker sent {problem}") from problem
    if error is None:
        return Ack.STORED
    if error.get("err_code") in FULL:
        return Ack.FULL
    if error.get("err_code") == TOO_LARGE:
        raise JobFailed(f"the broker refuses a chunk as too large: {error.get('description')}; see max_msg_size")
    # A duplicate in it, too many batches at once, a stream without them: what is in it goes one by one.
    return Ack.APART if error.get("code") == 400 else Ack.LATER


def _in_batch(batch: str, place: int, *, is_last: bool) -> dict[str, str]:
    found = {headers.BATCH_ID: batch, headers.BATCH_SEQUENCE: str(place)}
    return found | {headers.BATCH_COMMIT: "1"} if is_last else found


def _portions(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    first = size = 0
    for place, message in enumerate(messages):
        if place > first and (size + len(message.body) > _MAX_BYTES or place - first == _MAX_MESSAGES):
            yield messages[first:place]
            first, size = place, 0
        size += len(message.body)
    if len(messages) > first:
        yield messages[first:]
