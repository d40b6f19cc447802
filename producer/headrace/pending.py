"""A chunk that somebody waits for: what came of it, and when it is published again.

Knows events and pauses. Does not know NATS: exchange.py does.
"""

import asyncio
from dataclasses import replace

from headrace_contracts import ErrorCode, ErrorReply, topology

from headrace.ack_times import AckTimes
from headrace.outcome import Event, Outcome, by_broker, is_final, is_refusal
from headrace.outgoing import Outgoing
from headrace.pauses import Pauses
from headrace.retries import Retries

# Of batch work: the broker stores it on disk, on several servers, and has time.
_BATCH_ACK_S = 2.0
# A timer that is later than this tells that this process itself stood still: what came meanwhile is not looked at yet.
_LATE_S = 0.05
_MAX_LATE = 3
# When to come back if nobody says: an online queue holds about two seconds of work.
RETRY_MS = 1000


class Pending:
    """One chunk from its first publish to its reply.

    Attributes:
        chunk: what is published.
        events: what came of it and has not been looked at.
        copy: number of the copy that is published next; each has a message id of its own.
        is_published: whether the broker may have it.
        route: where it was published last.
        is_stored: whether a PubAck says that it is kept there.
        num_published: how often it was.
        published_s: when it was published last, by the event loop's clock.
        is_hedged: whether a copy went to another shard meanwhile.
    """

    def __init__(self, chunk: Outgoing, retries: Retries, acks: AckTimes) -> None:
        self.chunk = chunk
        self._acks = acks
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.copy = 0
        self.is_published = False
        self.route = ""
        self.is_stored = False
        self.num_published = 0
        self.published_s = 0.0
        self.is_hedged = False
        self._retries = retries
        self._pauses = Pauses()
        self._num_full = 0

    def begin(self, route: str) -> None:
        """It is published there now: what was lost up to here is made good by that."""
        kept = [self.events.get_nowait() for _ in range(self.events.qsize())]
        for event in kept:
            if event is not Outcome.LOST:
                self.events.put_nowait(event)
        if len(kept) > self.events.qsize() and self.is_published:
            # The broker may know the old message id and yet have lost the chunk, or its reply: another one must do.
            self.copy += 1
        self.is_published = True
        self.num_published += 1
        self.published_s = asyncio.get_running_loop().time()
        self.route = route
        self.is_stored = False

    def stored(self) -> None:
        """A PubAck came."""
        self.is_stored = True
        # Of which copy it is, where there are several, nobody can tell. Batch is stored on disks, and takes longer.
        if self.num_published == 1 and self.chunk.priority == "online":
            self._acks.took(asyncio.get_running_loop().time() - self.published_s)

    async def outcome(self) -> Event:
        """The next event that something must be done about."""
        # Timers that are events themselves: an asyncio.timeout for each of the two waits costs a query 30 µs.
        loop = asyncio.get_running_loop()
        call_later, get_time = loop.call_later, loop.time
        is_online = self.chunk.priority == "online"
        patience_s = self._acks.timeout_s if is_online else _BATCH_ACK_S
        timer = call_later(patience_s, self.events.put_nowait, Outcome.UNCONFIRMED)
        try:
            event = await self.events.get()
            for _ in range(_MAX_LATE):
                if event is not Outcome.UNCONFIRMED or get_time() - timer.when() < _LATE_S:
                    break
                timer = call_later(patience_s, self.events.put_nowait, Outcome.UNCONFIRMED)
                event = await self.events.get()
            if event is Outcome.UNCONFIRMED and is_online:
                self._acks.ran_out(patience_s)
            if event is Outcome.STORED:
                timer.cancel()
                # The broker forgets what has waited for long in an online queue; in a batch queue it keeps it.
                if is_online:
                    timer = call_later(topology.ONLINE_MAX_AGE_S, self.events.put_nowait, Outcome.LOST)
            while event is Outcome.STORED:
                event = await self.events.get()
            return event
        finally:
            timer.cancel()

    async def before_next(self, event: Event, *, is_last_route: bool) -> Event | None:
        """Do what an event that is not final asks for before the next publish.

        Returns:
            None when it is time for it; else the event that ends the wait instead.
        """
        if event is Outcome.FULL and self._is_full_everywhere():
            event = by_broker(ErrorCode.OVERLOADED, "the online queue is full: retry later", RETRY_MS)
        if is_refusal(event):
            return await self._before_retry(event)
        if event is Outcome.LOST:
            self.copy += 1
        elif event is not Outcome.UNCONFIRMED and is_last_route:
            return await self._pause(self._pauses.take_s())
        return None

    def _is_full_everywhere(self) -> bool:
        """Whether an online chunk has found no room on any of its routes; a batch chunk waits for it."""
        self._num_full += 1
        if self.chunk.priority == "batch" or self._num_full < len(self.chunk.routes):
            return False
        self._num_full = 0
        return True

    async def _before_retry(self, refusal: ErrorReply) -> Event | None:
        hint_ms = RETRY_MS if refusal.retry_ms is None else refusal.retry_ms
        now_s = asyncio.get_running_loop().time()
        pause_s = self._retries.pause_s(hint_ms / 1000, now_s, self.chunk.deadline.loop_s)
        if pause_s is None:
            return replace(refusal, text=refusal.text + self._retries.said)
        # A worker's refusal settled the message; under its id the broker would take the next one for a second copy.
        self.copy += 1
        return await self._pause(pause_s)

    async def _pause(self, seconds: float) -> Event | None:
        """Wait so long, or until something final comes: an earlier copy may be answered, or the client closed."""
        timer = asyncio.get_running_loop().call_later(seconds, self.events.put_nowait, Outcome.RESTED)
        try:
            while (event := await self.events.get()) is not Outcome.RESTED:
                if is_final(event):
                    return event
            return None
        finally:
            timer.cancel()
