"""A chunk on its way out, and the moment at which nobody waits for its reply any more.

Knows what publishing needs. Does not know what comes back: outcome.py does.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_contracts import Priority

if TYPE_CHECKING:
    from headrace.spans import ChunkSpan


@dataclass(frozen=True, slots=True)
class Deadline:
    """One moment on two clocks: the event loop's for waiting here, unix ms for the worker."""

    loop_s: float
    unix_ms: int

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """So many seconds from now."""
        return cls(asyncio.get_running_loop().time() + seconds, int((time.time() + seconds) * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A chunk ready to be published.

    Attributes:
        model: whom it is for.
        routes: subjects where it may go: the first, and should that fail or be full the next, over and over.
        body: the encoded chunk.
        chunk_id: its id; message ids are made of it.
        tokens: in the body.
        priority: online is refused when the queue is full, batch waits.
        deadline: after which nobody waits.
        tenant: whose share of the fleet it counts against.
        retries: how often it may be tried again when it is refused as overloaded; None leaves that to the deadline.
        traceparent: trace context that travels with it.
        request_id: what the caller calls its call; None if that has no name but ours.
        span: of the chunk, where it is traced.
        hedge_route: subject of another shard, where a copy may go when the reply is late; None has no copy made.
    """

    model: str
    routes: tuple[str, ...]
    body: bytes
    chunk_id: str
    tokens: int
    priority: Priority
    deadline: Deadline
    tenant: str | None = None
    retries: int | None = 0
    traceparent: str | None = None
    request_id: str | None = None
    span: "ChunkSpan | None" = None
    hedge_route: str | None = None
