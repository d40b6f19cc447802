"""nats-py's client, mended.

Knows what in it waits for ever, gives up for good, or says too little. Does not know who connects, nor why.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from nats.aio.client import Client as NatsClient
from nats.aio.client import Srv
from nats.aio.msg import Msg
from nats.errors import AuthorizationError
from nats.errors import Error as NatsError
from nats.protocol import parser
from nats.protocol.parser import Parser

from headrace_contracts.credentials import Credentials
from headrace_contracts.errors import CredentialsError
from headrace_contracts.refusal import NotAllowed, Violation, is_refusal
from headrace_contracts.tls import PlainText


class Patient(NatsClient):
    """nats-py's client, mended in eight places.

    It hears on whatever comes. A server takes any bytes for headers, or for a part of a subject, of whoever publishes
    them; nats-py's loop that reads ends by the first ones that it cannot make text of, as by the PONGs below, and it
    takes a form feed in a subject for the subject's end. Of a queue such a message would come back, to one worker after
    the other, until all are deaf. It is given on instead, without its headers or with a subject that shows the bytes,
    and refused by whoever it comes to.

    The same when a server answers a PING for which nobody waits any more. nats-py itself sets the result of a future
    that was cancelled, and its loop that reads ends by the error: nothing is heard until two PINGs more are unanswered,
    half a minute later. A server that stood still for a moment is enough.

    And who is cancelled in it is cancelled. nats-py waits for answers by asyncio.wait_for, which before Python 3.12
    returns one that has just come and keeps the cancelling to itself, and while it waits for its buffer to empty it
    takes no notice of it at all. Then a task goes on that was told to end, or past its timeout, and whoever waits for
    its end waits for ever. The same goes for the search for a server: one that just refuses a connection is as good an
    answer, and the search would go on.

    A request that the user may not make raises NotAllowed at once, where nats-py waits for an answer that will never
    come; the same goes for all requests where the user may not have the inbox.

    When a server no longer takes the credentials, a new connection is sought, for they may be renewed: nats-py would
    close for good.

    Where TLS was asked for, a server that speaks plain text is told nothing: nats-py would send it the password.

    Closing a connection that is lost writes nothing more to it. nats-py would, and end there by whatever error the
    transport raises, with its tasks and subscriptions as they were; over TLS that is an AttributeError.

    And a lost connection is not waited for. nats-py first closes it, which asyncio does once all is sent that was to be
    sent: to a server that is cut off that may take a quarter of an hour. What was to be sent is lost either way.

    Besides, it can be asked whether the server answers, and leave it for another one.

    Attributes:
        is_silent: whether what took the last connection had not said in time what a nats-server says first.
    """

    def __init__(self, access: Credentials | None, on_violation: Callable[[NotAllowed], None], *, tls: bool) -> None:
        super().__init__()
        self._ps = _Parser(self)
        self._access = access
        self._on_violation = on_violation
        self._must_encrypt = tls
        self.is_silent = False
        self._left: dict[str, float] = {}
        self._asked: WeakKeyDictionary[asyncio.Future[Msg], str] = WeakKeyDictionary()

    @property
    def num_servers(self) -> int:
        """Servers that are known: those that were named, and those that they have told of."""
        return len(self._server_pool)

    @property
    def server(self) -> str:
        """Host and port of the server that the last connection was to."""
        return "" if self._current_server is None else self._current_server.uri.netloc.rpartition("@")[2]

    async def answers(self, slices: int, slice_s: float) -> bool:
        """Whether the server says anything, to a PING or besides, within so many slices of so many seconds."""
        before = self._num_heard()
        pong: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # A buffer that nobody empties must not hold this up.
        asking = asyncio.create_task(self._send_ping(pong))
        try:
            for _ in range(slices):
                await asyncio.wait([pong], timeout=slice_s)
                if self._num_heard() != before:
                    return True
            return False
        finally:
            pong.cancel()
            asking.cancel()
            # What it may raise is that the connection was lost meanwhile.
            await asyncio.gather(asking, return_exceptions=True)

    def _num_heard(self) -> int:
        return self.stats["in_msgs"] + self._pongs_received

    async def leave(self) -> None:
        """Give this connection up and seek another server; this one comes last, as others that were left lately do."""
        if self._current_server is not None:
            self._left[self._current_server.uri.netloc] = time.monotonic()
        await self.force_reconnect()

    async def _select_next_server(self) -> None:
        self._server_pool.sort(key=lambda server: self._left.get(server.uri.netloc, 0.0))
        await super()._select_next_server()

    async def _attempt_reconnect(self) -> None:
        self._abort()
        try:
            await super()._attempt_reconnect()
        except asyncio.InvalidStateError:
            # Refused as soon as it is connected, it is replaced by another search, whose future it takes for its own.
            future = self._reconnection_task_future
            if future is None or not future.done():
                raise

    def _abort(self) -> None:
        """Drop the connection with all that was to be sent."""
        # TLS and plain TCP have such a writer, WebSockets have none.
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except (ValueError, IndexError) as error:
            await self._error_cb(error)
            return None  # as if there were none: whoever needs some refuses the message

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        message: Msg = super()._build_message(sid, _text(subject), _text(reply), data, headers)
        return message

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def request(  # noqa: D102 - nats-py's, and so is the next
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        with _heeding_cancellation():
            return await super().request(subject, payload, timeout, old_style, headers)

    async def publish(  # noqa: D102 - likewise
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None
    ) -> None:
        prefix = self._resp_sub_prefix
        if reply and prefix and reply.startswith(prefix.decode()):
            asked = self._resp_map.get(reply[len(prefix) :])
            if asked is not None:
                self._asked[asked] = subject
        await super().publish(subject, payload, reply, headers)

    async def _connect_to_server(self, s: Srv) -> None:
        self._abort()  # of the try before, which may have come as far as a connection
        with _heeding_cancellation():
            await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        with _heeding_cancellation():
            try:
                await super()._process_connect_init()
            except (TimeoutError, asyncio.CancelledError):
                self.is_silent = not self._server_info
                raise

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        with _heeding_cancellation():
            return await super()._flush_pending(force_flush)

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        if not self.is_connected:
            self._pending, self._pending_data_size = [], 0
        await super()._close(status, do_cbs)

    async def _process_err(self, err_msg: str) -> None:
        violation = Violation.read(err_msg)
        if violation is not None:
            self._violated(violation)
        elif is_refusal(err_msg):
            error = AuthorizationError()
            await self._error_cb(error)
            await self._process_op_err(error)
        else:
            await super()._process_err(err_msg)

    def _violated(self, violation: Violation) -> None:
        """Tell those who wait for an answer that will not come, and whoever else listens."""
        waiting = [(each, subject) for each, subject in self._asked.items() if not each.done()]
        inbox = self._resp_sub_prefix
        if violation.action == "publish":
            waiting = [(each, subject) for each, subject in waiting if violation.is_of(subject)]
        elif inbox is None or not violation.is_of(f"{inbox.decode()}*"):
            waiting = []
        user, role = (None, None) if self._access is None else (self._access.name, self._access.role)
        if waiting and violation.action == "subscribe":
            self._resp_sub_prefix = None  # the next request asks for an inbox anew
        for each, subject in waiting:
            # nats-py has made the server's words small; this is the subject as it was asked for.
            found = Violation("publish", subject) if violation.action == "publish" else violation
            each.set_exception(NotAllowed(found, user, role))
        if violation.action == "publish" and waiting:
            violation = Violation("publish", waiting[0][1])
        self._on_violation(NotAllowed(violation, user, role))

    def _connect_command(self) -> bytes:
        if self._must_encrypt and not self._is_encrypted():
            raise Downgraded
        try:
            return super()._connect_command()
        except CredentialsError as error:  # the creds file, read anew, is none any more
            raise Unreadable(str(error)) from error

    def _is_encrypted(self) -> bool:
        transport = self._transport
        writer = getattr(transport, "_io_writer", None)
        if writer is not None:
            return writer.get_extra_info("ssl_object") is not None
        return bool(getattr(transport, "_using_tls", False))


class _Parser(Parser):
    """nats-py's, on patterns that end a word of a line where a server does: at a space or a tab."""

    # No pattern can be given to it; and those of its module are everybody's in this process.
    parse = FunctionType(
        Parser.parse.__code__,
        {
            **vars(parser),
            "MSG_RE": re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n"),
            "HMSG_RE": re.compile(
                rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n"
            ),
        },
        argdefs=Parser.parse.__defaults__,
    )


class Downgraded(NatsError, PlainText):
    """Raised when TLS was asked for and a server speaks plain text."""


class Unreadable(NatsError):
    """Raised when credentials, read anew for a connection, cannot be read."""


def _text(raw: bytes) -> bytes:
    """What can be made text of: the same, or else with what cannot shown."""
    return raw if raw.isascii() else raw.decode("utf-8", "backslashreplace").encode()


@contextlib.contextmanager
def _heeding_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end, should the task have been cancelled in here, whatever else came of it."""
    task = asyncio.current_task()
    num_before = 0 if task is None else task.cancelling()
    try:
        yield
    finally:
        if task is not None and task.cancelling() > num_before:
            raise asyncio.CancelledError
