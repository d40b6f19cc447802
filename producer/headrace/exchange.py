"""One chunk out, one reply back, however often that takes.

Knows the inbox, the PubAck that says a chunk is stored, and when to publish it again: under the same message id while
no PubAck came, under a new one after a reconnection, when both chunk and reply may be lost; each time to the next
shard, where there are several. A second copy is harmless: the first reply wins. What a caller gives up is cancelled.
Does not know texts, nor what a model is but a name.
"""

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count, cycle
from typing import TypeAlias
from weakref import WeakValueDictionary

from headrace_contracts import (
    Cancel,
    DecodeError,
    Envelope,
    ErrorCode,
    ErrorReply,
    Priority,
    Reply,
    decode_reply,
    encode_cancel,
    subjects,
    topology,
)
from headrace_contracts.connection import Link
from headrace_contracts.limits import MAX_CANCEL_IDS
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, MaxPayloadError
from nats.errors import Error as NatsError

from headrace.errors import ConnectionFailed, DeadlineExceeded, Overloaded

# Chunks on their way at a time: enough to keep a fleet busy, few enough to bound memory.
_WINDOW = 256
_ACK_TIMEOUT_S = 2.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0
_RETRY_AFTER_S = 1.0
_INBOX = "c"  # keeps our inboxes apart from those that nats-py makes under the same prefix
# JetStream error codes: the NATS stream's limit, the server's or the account's resources, too many requests at once.
_FULL = frozenset({10077, 10023, 10002, 10167})
_TOO_LARGE = 10054  # no retry makes it fit


class Outcome(Enum):
    """What else than a reply can come of a published chunk."""

    STORED = auto()  # the broker has it
    FULL = auto()  # the broker has no room
    MISSING = auto()  # no NATS stream takes the subject, for now
    UNCONFIRMED = auto()  # nothing came back
    CLOSED = auto()  # nobody will be told any more
    LOST = auto()  # it may be gone, and its reply too: the connection was made anew, or it grew too old in the queue


Event: TypeAlias = Outcome | Reply | ErrorReply


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
    """

    model: str
    routes: tuple[str, ...]
    body: bytes
    chunk_id: str
    tokens: int
    priority: Priority
    deadline: Deadline
    tenant: str | None = None


@dataclass(slots=True)
class _Call:
    """A chunk that somebody waits for."""

    chunk: Outgoing
    events: "asyncio.Queue[Event]"
    is_published: bool = False


class Exchange:
    """The client's inbox and the calls that wait on it."""

    def __init__(self, nats: NatsClient, link: Link, inbox: str) -> None:
        self._nats = nats
        self._link = link
        self._inbox = f"{inbox}.{_INBOX}"
        self._numbers = count()
        self._calls: dict[str, _Call] = {}
        # Each class of each tenant has its own: a long batch call must not hold up a query of the same client, nor one
        # caller of a gateway another. They last as long as somebody is in them.
        self._windows: WeakValueDictionary[tuple[Priority, str | None], asyncio.Semaphore] = WeakValueDictionary()
        link.on_up = lambda: self._tell_all(Outcome.LOST)

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
            Overloaded: the queue is full and the chunk is online.
            DeadlineExceeded: no reply before the deadline.
            ConnectionFailed: the client was closed.
        """
        number = str(next(self._numbers))
        window = self._windows.setdefault((chunk.priority, chunk.tenant), asyncio.Semaphore(_WINDOW))
        call = self._calls[number] = _Call(chunk, asyncio.Queue())
        try:
            async with asyncio.timeout_at(chunk.deadline.loop_s), window:
                return await self._insist(call, number)
        except TimeoutError:
            raise DeadlineExceeded(ErrorCode.EXPIRED, self._diagnosis(chunk)) from None
        except asyncio.CancelledError:
            if call.is_published:
                await self._cancel([chunk])
            raise
        finally:
            del self._calls[number]

    async def _insist(self, call: _Call, number: str) -> Reply | ErrorReply:
        """Publish until there is a reply."""
        chunk, events = call.chunk, call.events
        copy, num_full, pause = 0, 0, _FIRST_PAUSE_S
        for route in cycle(chunk.routes):
            await self._link.up.wait()
            _forget_losses(events)
            call.is_published = True
            outcome = await self._publish(chunk, route, number, copy) or await _outcome(events, chunk.priority)
            if isinstance(outcome, (Reply, ErrorReply)):
                return outcome
            if outcome is Outcome.CLOSED:
                raise ConnectionFailed("the client is closed: open a new one")
            num_full += outcome is Outcome.FULL
            if num_full == len(chunk.routes) and chunk.priority == "online":
                raise Overloaded(ErrorCode.OVERLOADED, "the online queue is full: retry later", _RETRY_AFTER_S)
            if outcome is Outcome.LOST:
                copy += 1
            elif outcome is not Outcome.UNCONFIRMED and route == chunk.routes[-1]:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE_S)
        raise AssertionError("This is a bug: a chunk without routes")

    async def _publish(self, chunk: Outgoing, route: str, number: str, copy: int) -> Outcome | ErrorReply | None:
        envelope = Envelope(
            reply_to=f"{self._inbox}.{number}.r",
            tokens=chunk.tokens,
            deadline_ms=chunk.deadline.unix_ms,
            tenant=chunk.tenant,
            msg_id=f"{chunk.chunk_id}-{copy}",
        )
        try:
            await self._nats.publish(
                route, chunk.body, reply=f"{self._inbox}.{number}.a", headers=envelope.to_headers()
            )
        except ConnectionClosedError:
            raise ConnectionFailed("the client is closed: open a new one") from None
        except MaxPayloadError as error:
            return ErrorReply(id="", code=ErrorCode.TOO_LONG, text=f"the broker refuses it: {error}", worker="broker")
        except NatsError:
            # The connection broke just now and its buffer is full.
            return Outcome.MISSING
        return None

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
        call = self._calls.get(number)
        if call is None:
            return  # a second copy's reply, or nobody waits any more
        event = _read_ack(message) if kind == "a" else _read_reply(message)
        call.events.put_nowait(event)

    def _tell_all(self, outcome: Outcome) -> None:
        for call in self._calls.values():
            call.events.put_nowait(outcome)

    def _diagnosis(self, chunk: Outgoing) -> str:
        if not self._nats.is_connected:
            return "no reply in time: the connection to nats-server was lost and is not back; see whether it runs"
        return f"no reply in time: allow more, or see whether workers for {chunk.model} run and keep up"


def _portions(ids: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(ids[start : start + size]) for start in range(0, len(ids), size))


def _forget_losses(events: "asyncio.Queue[Event]") -> None:
    """Before a publish: what was lost up to now is published again by it."""
    kept = [events.get_nowait() for _ in range(events.qsize())]
    for event in kept:
        if event is not Outcome.LOST:
            events.put_nowait(event)


async def _outcome(events: "asyncio.Queue[Event]", priority: Priority) -> Event:
    """The next event that something must be done about."""
    # Timers that are events themselves: an asyncio.timeout for each of the two waits costs a query 30 µs.
    call_later = asyncio.get_running_loop().call_later
    timer = call_later(_ACK_TIMEOUT_S, events.put_nowait, Outcome.UNCONFIRMED)
    try:
        event = await events.get()
        if event is Outcome.STORED:
            timer.cancel()
            # The broker forgets what has waited for long in an online queue; in a batch queue it keeps it.
            if priority == "online":
                timer = call_later(topology.ONLINE_MAX_AGE_S, events.put_nowait, Outcome.LOST)
        while event is Outcome.STORED:
            event = await events.get()
        return event
    finally:
        timer.cancel()


def _read_ack(message: Msg) -> Event:
    """A PubAck (JetStream API, PubAckResponse), or the status of a subject that nobody listens on."""
    if not message.data:
        return Outcome.MISSING
    error = json.loads(message.data).get("error")
    if error is None:
        return Outcome.STORED
    code = error.get("err_code")
    if code == _TOO_LARGE:
        return ErrorReply(id="", code=ErrorCode.TOO_LONG, text=f"the broker refused it: {error}", worker="broker")
    return Outcome.FULL if code in _FULL else Outcome.MISSING


def _read_reply(message: Msg) -> Event:
    try:
        return decode_reply(message.data)
    except DecodeError as error:
        text = f"a worker sent a reply that this client cannot read: {error}"
        return ErrorReply(id="", code=ErrorCode.INTERNAL, text=text, worker="unknown")
