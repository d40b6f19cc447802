"""A NATS connection without a server: what the client publishes is answered in this process.

Knows subjects, PubAcks, delays and cancels. Does not know how rows are made: fake_worker.py does.
"""

import asyncio
import math
from asyncio import Task, TimerHandle
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from headrace_contracts import Chunk, Envelope, ErrorReply, decode_cancel, decode_chunk, encode_reply
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError

from headrace.errors import Overloaded
from headrace.testing.fake_worker import WORKER, FakeWorker
from headrace.testing.progress import CURRENT
from headrace.testing.script import Script

_PUB_ACK = b'{"stream":"HR_FAKE","seq":1}'


class MemoryNats(NatsClient):
    """As much of a connection as a client uses."""

    def __init__(self, worker: FakeWorker, script: Script) -> None:
        """Connect to nothing.

        Args:
            worker: runs the chunks.
            script: what goes wrong.
        """
        super().__init__()
        self._worker = worker
        self._script = script
        self._is_closed = False
        self._deliver: Callable[[Msg], Awaitable[None]] | None = None
        self._replies: dict[str, TimerHandle] = {}
        self._deliveries: set[Task[Any]] = set()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    @property
    def is_connected(self) -> bool:
        """Whether it was not."""
        return not self._is_closed

    async def close(self) -> None:
        """Answer nothing any more."""
        self._is_closed = True
        for reply in self._replies.values():
            reply.cancel()
        self._replies.clear()

    async def subscribe(
        self,
        subject: str,
        queue: str = "",
        cb: Callable[[Msg], Awaitable[None]] | None = None,
        *limits: Any,
        **more: Any,
    ) -> Subscription:
        """Take the client's inbox; it has no other subscription."""
        self._deliver = cb
        return Subscription(self, 1, subject, queue, cb, *limits, **more)

    async def publish(
        self,
        subject: str,  # noqa: ARG002 - there is one worker, who takes all
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Answer a chunk, at once or later; or drop those that were given up."""
        if self._is_closed:
            raise ConnectionClosedError
        if headers is None:  # chunks have some
            self._drop(decode_cancel(payload).ids)
        else:
            self._answer(decode_chunk(payload), Envelope.from_headers(headers), reply)

    def _drop(self, chunk_ids: Iterable[str]) -> None:
        for chunk_id in chunk_ids:
            if (waiting := self._replies.pop(chunk_id, None)) is not None:
                waiting.cancel()

    def _answer(self, chunk: Chunk, envelope: Envelope, ack_to: str) -> None:
        attempt = (envelope.msg_id or "").rpartition("-")[2]
        error = CURRENT.get().verdict(attempt, self._script.judge)
        if error is not None and not isinstance(error, Overloaded):
            raise error
        if ack_to:  # a hedge has none
            self._send(ack_to, _PUB_ACK)
        if isinstance(error, Overloaded):
            self._send(envelope.reply_to, encode_reply(_refusal(chunk, error)))
            return
        delay_s = self._script.delay_s
        if delay_s < math.inf:
            self._send_later(delay_s, chunk.id, envelope.reply_to, encode_reply(self._worker.run(chunk, delay_s)))

    def _send_later(self, delay_s: float, chunk_id: str, subject: str, body: bytes) -> None:
        if delay_s == 0:
            self._send(subject, body)
            return
        if chunk_id in self._replies:
            return  # a second copy: the first one's reply will do for both

        def send() -> None:
            del self._replies[chunk_id]
            self._send(subject, body)

        self._replies[chunk_id] = asyncio.get_running_loop().call_later(delay_s, send)

    def _send(self, subject: str, body: bytes) -> None:
        if self._deliver is not None:
            delivery = asyncio.ensure_future(self._deliver(Msg(self, subject=subject, data=body)))
            self._deliveries.add(delivery)
            delivery.add_done_callback(self._deliveries.discard)


def _refusal(chunk: Chunk, error: Overloaded) -> ErrorReply:
    retry_ms = None if error.retry_after_s is None else int(error.retry_after_s * 1000)
    # The client puts the code before the text.
    text = str(error).removeprefix(f"{error.code}: ")
    return ErrorReply(id=chunk.id, code=error.code, text=text, retry_ms=retry_ms, worker=WORKER)
