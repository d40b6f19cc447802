"""`python -m economics.publisher`: fills a NATS stream with chunks that are as good as a client's.

It knows the wire format, and how to keep many publishes on their way without losing count of their PubAcks. Nobody
listens for the replies to what it publishes.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from economics import processes
from headrace_contracts import Chunk, Envelope, connection, encode_chunk, subjects
from headrace_workers import event_loop
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

_REPLY_TO = subjects.inbox("bench") + ".nobody"
# Publishes on their way: enough to keep a broker busy, few enough to be answered in milliseconds.
_WINDOW = 1024
_SOME_ID = 1000
_CONNECT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is asked.

    Attributes:
        url: Of the nats-server.
        model: Served name.
        fingerprint: Of its spec.
        tokens: Of a chunk, which is one sequence.
        first: Number of the first chunk; ids are made of numbers, so that none comes twice.
        chunks: How many.
    """

    url: str
    model: str
    fingerprint: str
    tokens: int
    first: int
    chunks: int

    def messages(self) -> Iterator[tuple[bytes, dict[str, str]]]:
        """Bodies and headers."""
        lengths, ids = np.array([self.tokens], np.uint32), np.full(self.tokens, _SOME_ID, np.uint32)
        for number in range(self.first, self.first + self.chunks):
            chunk_id = f"{number:024x}"
            chunk = Chunk(
                id=chunk_id,
                task="embed",
                model=self.model,
                fingerprint=self.fingerprint,
                lengths=lengths,
                token_ids=ids,
            )
            envelope = Envelope(reply_to=_REPLY_TO, tokens=self.tokens, msg_id=f"{chunk_id}-0")
            yield encode_chunk(chunk), envelope.to_headers()


class Window:
    """Publishes that have no PubAck yet."""

    def __init__(self) -> None:
        self._open = 0
        self._room = asyncio.Event()
        self._refusal: str | None = None

    async def on_ack(self, message: Msg) -> None:
        """A PubAck came, or an error in its place."""
        error = "no NATS stream takes it" if not message.data else json.loads(message.data).get("error")
        self._refusal = self._refusal or (str(error) if error else None)
        self._open -= 1
        self._room.set()

    async def enter(self, at_most: int = _WINDOW) -> None:
        """Wait until fewer than `at_most` are open, and open one more.

        Raises:
            RuntimeError: The broker refused one.
        """
        while self._open >= at_most and self._refusal is None:
            self._room.clear()
            await self._room.wait()
        if self._refusal is not None:
            raise RuntimeError(f"the broker refuses a chunk: {self._refusal}")
        self._open += 1


async def run(plan: Plan) -> float:
    """Publish all; returns the seconds from the first publish to the last PubAck.

    Raises:
        RuntimeError: The broker refused one.
    """
    inbox = subjects.inbox("publisher")
    nats, _ = await connection.connect(plan.url, name="bench publisher", inbox=inbox, timeout_s=_CONNECT_S)
    try:
        started_s = time.perf_counter()
        await _publish_all(nats, plan, nats.new_inbox())
        return time.perf_counter() - started_s
    finally:
        await nats.close()


async def _publish_all(nats: NatsClient, plan: Plan, acks: str) -> None:
    window = Window()
    await nats.subscribe(acks, cb=window.on_ack, pending_msgs_limit=0, pending_bytes_limit=0)
    subject = subjects.batch(plan.model, "backlog")
    for body, headers in plan.messages():
        await window.enter()
        await nats.publish(subject, body, reply=acks, headers=headers)
    await window.enter(at_most=1)  # all the others are stored


def main() -> None:
    """Do what the standard input asks."""
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        processes.reply(runner.run(run(processes.plan(Plan))))


if __name__ == "__main__":
    main()
