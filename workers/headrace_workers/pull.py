"""The puller: asks the broker for as much work as its purse allows, and no more.

Knows JetStream's MSG.NEXT protocol (ADR-13, ADR-37, ADR-42): `max_bytes` credit, priority groups, status messages,
lost pulls. nats-py's own fetch has neither max_bytes nor groups (ops/decisions/0003). Does not know what the messages
mean, nor how the work they carry is scheduled.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace_contracts import Priority, topology
from headrace_contracts.api import in_words
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace_workers.delivery import Delivery
from headrace_workers.purse import Share

logger = logging.getLogger(__name__)

# A pull ends by bytes or by time, never by count: then no credit is ever lost silently.
_MAX_MESSAGES = 1_000_000
# No message is smaller than its subjects and headers: a pull with less credit left can only idle.
_SMALLEST_MESSAGE = 128
_RETRY_S = 0.25
# How the subject begins that work is acked on.
_ACK = "$JS.ACK."
_TOO_LARGE = "409 Message Size"
# Ends of a pull that no status of the broker names.
_USED_UP, _DOWN = "used up", "connection lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullLimits:
    """How one puller asks.

    Attributes:
        min_bytes: never ask for less: the largest message would end the pull at once, again and again.
        idle_bytes: ask for no more while the worker is idle, so that one idle worker does not hoard a burst.
        expires_s: seconds that a pull stands. One that has not ended after twice that is lost; so short pulls serve as
            heartbeats.
    """

    min_bytes: int
    idle_bytes: int
    expires_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PullHooks:
    """Whom a puller talks to.

    Attributes:
        on_delivery: awaited with each message, one after the other.
        on_settled: called with each message after it was settled.
        on_missing: awaited with the name of a NATS stream that the broker does not know, or not its consumer; it should
            provide them, and may raise what nats-py raises.
        is_idle: whether the worker has nothing to do; idle workers are served first.
    """

    on_delivery: Callable[[Delivery], Awaitable[None]]
    on_settled: Callable[[Delivery], None]
    on_missing: Callable[[str], Awaitable[object]]
    is_idle: Callable[[], bool]


class Puller:
    """Keeps one pull open on one NATS stream's shared consumer while the purse that it shares has room.

    Attributes:
        stream: name of the NATS stream.
        priority: class of its work.
        share: of the purse.
        at_rest: set while no pull is open, so that nothing can be on its way here.
        trouble: why the last pull failed, as it was logged; empty if it did not.
    """

    def __init__(
        self,
        nats: NatsClient,
        stream: str,
        priority: Priority,
        share: Share,
        limits: PullLimits,
        hooks: PullHooks,
    ) -> None:
        self.stream = stream
        self.share = share
        self._nats = nats
        self.priority: Priority = priority
        self._limits = limits
        self._hooks = hooks
        self.at_rest = asyncio.Event()
        self.at_rest.set()
        # Set whenever a reason not to pull may have gone.
        self._wake = asyncio.Event()
        self._is_up = False
        self._is_paused = False
        # Whether the last pull brought any work.
        self._is_fruitful = False
        # Whether the next message is larger than what was asked for.
        self._wants_all = False
        self._ended: asyncio.Future[str] | None = None
        self.trouble = ""

    async def run(self) -> None:
        """Pull until cancelled. Pause before, and wait until it is at rest, to lose nothing that is on its way."""
        while True:
            if self._is_up and not self._is_paused and self.share.free >= self._limits.min_bytes:
                await self._after(await self._pull())
            else:
                self._wake.clear()
                await self._wake.wait()

    def pause(self) -> None:
        """Open no further pull. The open one lapses by itself; what arrives meanwhile is still delivered."""
        self._is_paused = True

    def resume(self) -> None:
        """Pull again."""
        self._is_paused = False
        self._wake.set()

    def on_up(self) -> None:
        """The connection stands, and the broker has what is pulled from. No pull is opened before.

        One that was sent without a connection would be served later, to an inbox long gone.
        """
        self._is_up = True
        self._wake.set()

    def on_down(self) -> None:
        """The connection was lost, and with it the open pull."""
        self._is_up = False
        self._end(_DOWN)

    async def _pull(self) -> str:
        """Open one pull, on an inbox of its own, and stay until it ends; returns why it did."""
        self.at_rest.clear()
        idle = self._hooks.is_idle()
        size = self._size(idle=idle)
        self._is_fruitful = False
        self._ended = asyncio.get_running_loop().create_future()
        inbox = self._nats.new_inbox()
        self.share.open_pull(size)
        try:
            # Limits off: the purse bounds what can be on its way.
            inflow = await self._nats.subscribe(inbox, cb=self._on_message, pending_msgs_limit=0, pending_bytes_limit=0)
            request = self._request(size, topology.IDLE if idle else topology.PREFETCH)
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{topology.CONSUMER}"
            await self._nats.publish(subject, request, reply=inbox)
            return await self._end_of(inflow, self._ended)
        except NatsError as error:
            return f"not sent: {in_words(error)}"
        finally:
            self.share.end_pull()
            self.at_rest.set()

    def _size(self, *, idle: bool) -> int:
        """Bytes to ask for."""
        if self._wants_all:
            return self.share.free
        if not self._is_fruitful:
            # Where there was no work a pull mostly stands there, and what it takes the other queues lack.
            return self._limits.min_bytes
        free = self.share.free
        return min(free, max(self._limits.idle_bytes, self._limits.min_bytes)) if idle else free

    async def _end_of(self, inflow: Subscription, ended: "asyncio.Future[str]") -> str:
        """Wait for the end of the open pull and close its inbox."""
        try:
            async with asyncio.timeout(2 * self._limits.expires_s + 1):
                reason = await ended
        except TimeoutError:
            # Either side may have stood still for a while: take in what has come and was not looked at yet.
            with contextlib.suppress(NatsError, TimeoutError):
                async with asyncio.timeout(1):
                    await inflow.drain()  # type: ignore[no-untyped-call] # nats-py left this one untyped
            return "lost: the broker never ended it"
        # The connection may be gone; then the broker has dropped the subscription itself.
        with contextlib.suppress(NatsError):
            await inflow.unsubscribe()
        return reason

    def _request(self, size: int, priority: int) -> bytes:
        return json.dumps(
            {
                "batch": _MAX_MESSAGES,
                "max_bytes": size,
                "expires": int(self._limits.expires_s * 1e9),
                "group": topology.PULL_GROUP,
                "priority": priority,
            }
        ).encode()

    async def _on_message(self, message: Msg) -> None:
        headers = message.headers or {}
        # Work has an ack subject. A Status header on it is a producer's and means nothing.
        if "Status" in headers and not message.reply:
            # nats-py takes the next header for a description where there is none.
            description, _, _ = headers.get("Description", "").partition("\n")
            self._end(f"{headers['Status']} {description}".strip())
            return
        if not message.reply.startswith(_ACK):
            return  # no queue gave it out: somebody else publishes to this inbox
        self._is_fruitful = True
        delivery = Delivery(message, self.priority, self._settled)
        self.share.arrive(delivery.size)
        if self.share.credit < _SMALLEST_MESSAGE:
            self._end(_USED_UP)
        try:
            await self._hooks.on_delivery(delivery)
        except Exception:
            # nats-py would only report it, and the message would be held for ever.
            logger.exception("This is a bug: a delivery could not be taken in")
            try:
                await delivery.nak(_RETRY_S)
            except (NatsError, OSError):
                delivery.abandon()  # or else its bytes would be missing from the purse for ever

    def _settled(self, delivery: Delivery) -> None:
        self.share.settle(delivery.size)
        self._wake.set()
        self._hooks.on_settled(delivery)

    def _end(self, reason: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(reason)

    async def _after(self, reason: str) -> None:
        """Go on at once after an ordinary end; otherwise mend what is missing and wait a moment."""
        if reason == _DOWN:
            return
        # No client's message is larger than the least that is asked for: it is a stranger's, and all wait behind it.
        wanted_all, self._wants_all = self._wants_all, reason.startswith(_TOO_LARGE) and not self._is_fruitful
        if reason.startswith(("408", _TOO_LARGE, _USED_UP)) and not (wanted_all and self._wants_all):
            self._log("")
            return
        if reason.startswith(("404", "503", "409 Consumer Deleted")):
            try:
                await self._hooks.on_missing(self.stream)
            except (NatsError, OSError) as error:
                reason += f"; it cannot be provided: {in_words(error)}"
        self._log(reason)
        await asyncio.sleep(_RETRY_S)

    def _log(self, trouble: str) -> None:
        """Say what is new: a server that is gone ends one pull after the other, for as long as it is."""
        if trouble:
            level = logging.DEBUG if trouble == self.trouble else logging.WARNING
            logger.log(level, "pull on %s ended: %s", self.stream, trouble)
        elif self.trouble:
            logger.info("pulls on %s work again", self.stream)
        self.trouble = trouble
