"""One message in this worker's hands, until it is settled.

Knows the JetStream ack protocol and that a message is settled exactly once: ack, nak, or dead-letter then ack.
Does not know what is inside the message.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace_contracts import Priority
from headrace_contracts.headers import DEADLINE
from nats.aio.msg import Msg

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_STORED_OVERHEAD = 16  # nats-server, memStoreMsgSize


class Delivery:
    """A message of a work queue, delivered to this worker.

    Attributes:
        priority: class of the queue it came from.
        size: bytes that the broker counted against the pull.
        num_tokens: tokens inside, once the worker has looked; for its counters.
        span: of its trace, which ends when it is settled; None where there is none.
    """

    __slots__ = ("_message", "_on_settled", "_settled", "num_tokens", "priority", "size", "span")

    def __init__(self, message: Msg, priority: Priority, on_settled: "Callable[[Delivery], None]") -> None:
        self._message = message
        self._on_settled = on_settled
        self._settled = False
        self.priority = priority
        self.size = wire_size(message)
        self.num_tokens = 0
        self.span: Span | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes that the NATS stream, in memory, holds for it: the ack subject is not among them, 16 of its own are."""
        return self.size - len(self._message.reply) + _STORED_OVERHEAD

    @property
    def body(self) -> bytes:
        """The message's body."""
        return self._message.data

    @property
    def headers(self) -> dict[str, str]:
        """The message's headers."""
        return self._message.headers or {}

    @property
    def count(self) -> int:
        """How often the broker has delivered this message, this time included."""
        return self._message.metadata.num_delivered

    @property
    def num_pending(self) -> int:
        """How many messages behind it wait in the broker for a worker."""
        return self._message.metadata.num_pending

    @property
    def place(self) -> str:
        """Where it lies in the broker: NATS stream and sequence number."""
        found = self._message.metadata
        return f"{found.stream}-{found.sequence.stream}"

    @property
    def subject(self) -> str:
        """Where it was published."""
        return self._message.subject

    @property
    def stream(self) -> str:
        """The NATS stream that it came from."""
        return self._message.metadata.stream

    @property
    def age_ms(self) -> float:
        """Milliseconds since the broker stored it, by this machine's clock; never negative."""
        return max(0.0, time.time() * 1000 - self._stored_ms)

    @property
    def patience_s(self) -> float | None:
        """Seconds from when the broker stored it to its deadline; None where there is none that can be read."""
        deadline = self.headers.get(DEADLINE, "")
        is_number = len(deadline) <= 19 and deadline.isascii() and deadline.isdecimal()
        return (int(deadline) - self._stored_ms) / 1000 if is_number else None

    @property
    def _stored_ms(self) -> float:
        return self._message.metadata.timestamp.timestamp() * 1000

    async def ack(self) -> None:
        """Settle: it was answered, the broker may forget it."""
        await self._message.ack()
        self._settle()

    async def nak(self, delay_s: float = 0) -> None:
        """Settle: give it back, for another worker or a later time."""
        await self._message.nak(delay_s or None)
        self._settle()

    def abandon(self) -> None:
        """Settle here only: the broker cannot be told and will redeliver it after its ack wait."""
        self._settle()

    async def in_progress(self) -> None:
        """Ask the broker not to redeliver it yet."""
        if not self._settled:
            await self._message.in_progress()

    def _settle(self) -> None:
        if self._settled:
            raise RuntimeError("This is a bug: a message was settled twice")
        self._settled = True
        if self.span is not None:
            self.span.end()
        self._on_settled(self)


def wire_size(message: Msg) -> int:
    """Bytes that nats-server counts against a pull's max_bytes: subject, ack subject, headers, body (ADR-37)."""
    headers = message.headers
    block = 0 if not headers else len("NATS/1.0\r\n\r\n") + sum(len(k) + len(v) + 4 for k, v in headers.items())
    return len(message.subject) + len(message.reply) + block + len(message.data)
