"""One chunk out, one reply back, however often that takes.

Knows the inbox, the PubAck that says a chunk is stored, and that each publish goes to the next shard, where there are
several: under the same message id while no PubAck came, under a new one when both chunk and reply may be lost. A second
copy is harmless: the first reply wins. What a caller gives up is cancelled. Does not know what an answer says
(outcome.py), when the next publish is due (pending.py) or a reply late (hedging.py), texts, nor what a model is but a
name.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle
from weakref import WeakValueDictionary

from headrace_contracts import Cancel, Envelope, ErrorCode, ErrorReply, Priority, Reply, encode_cancel, subjects
from headrace_contracts.connection import Link
from headrace_contracts.limits import MAX_CANCEL_IDS
from headrace_contracts.refusal import NotAllowed
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, MaxPayloadError
from nats.errors import Error as NatsError

from headrace.ack_times import AckTimes
from headrace.errors import AccessDenied, ConnectionFailed, DeadlineExceeded
from headrace.hedging import Hedges, Hedging
from headrace.outcome import Event, Outcome, by_broker, is_final, read_ack, read_reply
from headrace.outgoing import Outgoing
from headrace.pending import Pending
from headrace.queue_waits import QueueWaits
from headrace.retries import Retries
from headrace.retry_budget import RetryBudget
from headrace.shard_health import ShardHealth

# Chunks on their way at a time: enough to keep a fleet busy, few enough to bound memory.
_WINDOW = 256
# What workers have in hand is answered by then, as a rule.
_STORED_S = 1.0
_INBOX = "c"  # keeps our inboxes apart from those that nats-py makes under the same prefix
# The last token of an inbox: what comes there. It stands in the message id of a hedge, too.
_ACK, _REPLY, _HEDGE = "a", "r", "h"


class Exchange:
    """The client's inbox and the calls that wait on it."""

    def __init__(self, nats: NatsClient, link: Link, inbox: str, hedging: Hedging | None = None) -> None:
        self._nats = nats
        self._link = link
        self._inbox = f"{inbox}.{_INBOX}"
        self._numbers = count()
        self._calls: dict[str, Pending] = {}
        self._health = ShardHealth()
        self._waits = QueueWaits()
        self._acks = AckTimes()
        self._hedges = None if hedging is None else Hedges(hedging)
        self._hedging: set[asyncio.Task[None]] = set()
        self._retry_budget = RetryBudget()
        # Each class of each tenant has its own: a long batch call must not hold up a query of the same client, nor one
        # caller of a gateway another. They last as long as somebody is in them.
        self._windows: WeakValueDictionary[tuple[Priority, str | None], asyncio.Semaphore] = WeakValueDictionary()
        link.on_up = self._reconnected
        link.on_not_allowed = self._forbid
        self._forbidden: dict[str, NotAllowed] = {}

    async def open(self) -> None:
        """Subscribe to the inbox."""
        # Limits off: what can come in is bounded by the calls that wait.
        await self._nats.subscribe(
            f"{self._inbox}.*.*", cb=self._on_message, pending_msgs_limit=0, pending_bytes_limit=0
        )

    async def give_up(self) -> None:
        """Cancel what has no reply yet, as far as the connection allows."""
        await self._cancel(call.chunk for call in self._calls.values() if call.is_published)

    def close(self) -> None:
        """End all calls that wait; they raise ConnectionFailed."""
        self._tell_all(Outcome.CLOSED)
        # Whoever waits for the connection finds it closed.
        self._link.up.set()

    async def ask(self, chunk: Outgoing) -> Reply | ErrorReply:
        """Publish the chunk and wait for its reply.

        Raises:
            DeadlineExceeded: no reply before the deadline.
            ConnectionFailed: the client was closed.
            AccessDenied: nats-server does not let this user ask, or hear the answer.
        """
        number = str(next(self._numbers))
        window = self._windows.setdefault((chunk.priority, chunk.tenant), asyncio.Semaphore(_WINDOW))
        self._retry_budget.pay_in()
        if self._inbox in self._forbidden:
            raise AccessDenied(str(self._forbidden[self._inbox]))
        pending = self._calls[number] = Pending(chunk, Retries(chunk.retries, self._retry_budget), self._acks)
        try:
            async with asyncio.timeout_at(chunk.deadline.loop_s), window:
                if self._hedges is None or chunk.hedge_route is None:
                    return await self._insist(pending, number)
                return await self._insist_twice(pending, number, self._hedges)
        except TimeoutError:
            if pending.is_stored:
                self._waits.failed(pending.route, _now_s())
            raise DeadlineExceeded(ErrorCode.EXPIRED, self._diagnosis(pending, window)) from None
        except asyncio.CancelledError:
            if pending.is_published:
                await self._cancel([chunk])
            raise
        finally:
            del self._calls[number]

    async def _insist_twice(self, pending: Pending, number: str, hedges: Hedges) -> Reply | ErrorReply:
        """Publish until there is a reply, and should it be late a copy to another shard."""
        loop = asyncio.get_running_loop()
        began_s, late_s = loop.time(), hedges.begin(pending.chunk)
        timer = None if late_s is None else loop.call_later(late_s, self._hedge, pending, number, hedges)
        try:
            reply = await self._insist(pending, number)
        finally:
            if timer is not None:
                timer.cancel()
        if isinstance(reply, Reply):
            hedges.end(pending.chunk, loop.time() - began_s)
        if pending.is_hedged:
            # Both copies have the chunk's id. The one that was answered is done with, so this is for the other.
            await self._cancel([pending.chunk])
        return reply

    def _hedge(self, pending: Pending, number: str, hedges: Hedges) -> None:
        """The reply is late: publish a copy, if the first copy is under way elsewhere and the budget has one."""
        is_under_way = self._link.up.is_set() and pending.is_published and pending.route != pending.chunk.hedge_route
        if is_under_way and hedges.take():
            pending.is_hedged = True
            if pending.chunk.span is not None:
                pending.chunk.span.hedged(pending.chunk.hedge_route or "")
            publishing = asyncio.create_task(self._publish_hedge(pending.chunk, number))
            self._hedging.add(publishing)
            publishing.add_done_callback(self._hedging.discard)

    async def _publish_hedge(self, chunk: Outgoing, number: str) -> None:
        """Nobody hears whether it is stored, nor why it was refused: the first copy stands, and says more."""
        envelope = self._envelope(chunk, f"{number}.{_HEDGE}", _HEDGE)
        with contextlib.suppress(NatsError):
            await self._nats.publish(chunk.hedge_route or "", chunk.body, headers=envelope.to_headers())

    async def _insist(self, pending: Pending, number: str) -> Reply | ErrorReply:
        """Publish until there is a reply."""
        routes = self._health.order(self._waits.order(pending.chunk.routes, _now_s()), _now_s())
        for route in cycle(routes):
            await self._link.up.wait()
            self._health.tried(route, _now_s())
            self._waits.tried(route, _now_s())
            pending.begin(route)
            if (span := pending.chunk.span) is not None:
                span.published(route, pending.copy)
            event = await self._publish(pending, route, number) or await pending.outcome()
            if self._link.up.is_set():
                self._learn(pending.chunk.priority, route, event)
            is_last = route == routes[-1]
            if span is not None and not is_final(event):
                span.told(event)
            end = event if is_final(event) else await pending.before_next(event, is_last_route=is_last)
            if isinstance(end, (Reply, ErrorReply)):
                return end
            if end is Outcome.FORBIDDEN:
                raise AccessDenied(str(self._forbidden.get(route.lower()) or self._forbidden[self._inbox]))
            if end is Outcome.CLOSED:
                raise ConnectionFailed("the client is closed: open a new one")
        raise AssertionError("This is a bug: a chunk without routes")

    async def _publish(self, pending: Pending, route: str, number: str) -> Outcome | ErrorReply | None:
        chunk = pending.chunk
        envelope = self._envelope(chunk, f"{number}.{_REPLY}", str(pending.copy))
        try:
            await self._nats.publish(
                route, chunk.body, reply=f"{self._inbox}.{number}.{_ACK}", headers=envelope.to_headers()
            )
        except ConnectionClosedError:
            raise ConnectionFailed("the client is closed: open a new one") from None
        except MaxPayloadError as error:
            return by_broker(ErrorCode.TOO_LONG, f"the broker refuses it: {error}")
        except NatsError:
            # The connection broke just now and its buffer is full.
            return Outcome.MISSING
        return None

    def _envelope(self, chunk: Outgoing, reply_to: str, copy: str) -> Envelope:
        return Envelope(
            reply_to=f"{self._inbox}.{reply_to}",
            tokens=chunk.tokens,
            deadline_ms=chunk.deadline.unix_ms,
            tenant=chunk.tenant,
            msg_id=f"{chunk.chunk_id}-{copy}",
            traceparent=chunk.traceparent,
            request_id=chunk.request_id,
        )

    def _learn(self, priority: Priority, route: str, event: Event) -> None:
        """Note how a route did. Where a shard has just failed, the other calls on it go on to the next one at once."""
        if event is Outcome.UNCONFIRMED:
            self._link.doubt()
        if priority == "batch":  # it has one route only
            return
        if isinstance(event, Reply):
            self._waits.answered(route, event.usage, _now_s())
        elif event is Outcome.FULL:
            self._waits.failed(route, _now_s())
        if event is Outcome.MISSING and self._health.gone(route):
            doomed = [call for call in self._calls.values() if call.route == route]
        elif event is Outcome.UNCONFIRMED and self._health.silent(route, _now_s()):
            # Who has no other route only publishes again where he did: under a new id, all would be there twice.
            there = [call for call in self._calls.values() if call.route == route and len(call.chunk.routes) > 1]
            doomed = [call for call in there if not call.is_stored]
            # What it has stored may have been handed out, and be answered yet.
            stored = [call for call in there if call.is_stored]
            asyncio.get_running_loop().call_later(_STORED_S, self._give_up, route, stored)
        else:
            return
        for call in doomed:
            call.events.put_nowait(Outcome.LOST)

    def _give_up(self, route: str, stored: Iterable[Pending]) -> None:
        """The route fell silent a while ago: should it still be, what it had stored then is published elsewhere."""
        if self._health.is_silent(route):
            for call in stored:
                if call.route == route and call.is_stored:
                    call.events.put_nowait(Outcome.LOST)

    async def _cancel(self, chunks: Iterable[Outgoing]) -> None:
        """Tell the workers not to run them; who does not hear it computes for nobody."""
        by_model: dict[str, list[str]] = defaultdict(list)
        for chunk in chunks:
            by_model[chunk.model].append(chunk.chunk_id)
        with contextlib.suppress(NatsError, OSError):
            for model, ids in by_model.items():
                for some in _portions(ids, MAX_CANCEL_IDS):
                    await self._nats.publish(subjects.cancel(model), encode_cancel(Cancel(some)))

    async def _on_message(self, message: Msg) -> None:
        _, number, kind = message.subject.rsplit(".", 2)
        pending = self._calls.get(number)
        if pending is None:
            return  # a second copy's reply, or nobody waits any more
        event = read_ack(message.data) if kind == _ACK else read_reply(message.data)
        if event is Outcome.STORED:
            pending.stored()
            self._health.answered(pending.route)
        if kind != _HEDGE or isinstance(event, Reply):
            pending.events.put_nowait(event)

    def _reconnected(self) -> None:
        """What nobody answered on the lost connection, even if for long, says nothing of shards or PubAcks."""
        self._health.reconnected()
        self._acks.reconnected()
        self._tell_all(Outcome.LOST)

    def _tell_all(self, outcome: Outcome) -> None:
        for call in self._calls.values():
            call.events.put_nowait(outcome)

    def _forbid(self, error: NotAllowed) -> None:
        """End the calls that the server does not allow: no other route is more open to this user."""
        violation = error.violation
        if violation.action == "subscribe":
            if violation.is_of(f"{self._inbox}.*.*"):
                self._forbidden[self._inbox] = error
                self._tell_all(Outcome.FORBIDDEN)
            return
        self._forbidden[violation.subject.lower()] = error
        for call in self._calls.values():
            if call.is_published and violation.is_of(call.route):
                call.events.put_nowait(Outcome.FORBIDDEN)

    def _diagnosis(self, pending: Pending, window: asyncio.Semaphore) -> str:
        if not self._nats.is_connected:
            return "no reply in time: the connection to nats-server was lost and is not back; see whether it runs"
        model = pending.chunk.model
        if window.locked() and not pending.is_published:
            return (
                f"no reply in time: never sent, since {_WINDOW} chunks of this client wait for workers for {model} "
                "already; make fewer calls at a time, or allow more"
            )
        return f"no reply in time: allow more, or see whether workers for {model} run and keep up"


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _portions(ids: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(ids[start : start + size]) for start in range(0, len(ids), size))
