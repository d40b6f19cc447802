"""Bytes as nats-server sends them, read by the connection that both sides have.

It knows the protocol of NATS (https://docs.nats.io/reference/reference-protocols/nats-protocol) as far as a message
goes, and that a server passes on what a publisher wrote: the subject's tokens, the block of headers and the body. It
does not know what any of them means.
"""

import re
from functools import cache
from typing import Any

from headrace_contracts.patient import Patient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fuzz.target import Wrong

# How the server spells an ack subject: ADR-15 of NATS.
ACK = b"$JS.ACK.HR_ONLINE_minilm_0_0.workers.1.5.7.1700000000000000000.3"
_SID = 1
_BLANKS = re.compile(rb"[\s\0]+")
_SENTINEL = b"MSG next 1 2\r\nok\r\n"


class _Inbox:
    """A connection that is fed by hand."""

    def __init__(self) -> None:
        self.client = Patient(None, lambda _: None, tls=False)
        self.errors: list[Exception] = []
        self.client._error_cb = self._note  # noqa: SLF001 - what `connect` would set
        self.queue = _Queue()
        # Limits off, as where work is taken in.
        subscription = Subscription(self.client, _SID, ">", "", pending_msgs_limit=0, pending_bytes_limit=0)
        subscription._pending_queue = self.queue  # type: ignore[assignment] # noqa: SLF001 - takes in without a loop
        self.client._subs[_SID] = subscription  # noqa: SLF001 - what `subscribe` would do

    async def _note(self, error: Exception) -> None:
        self.errors.append(error)


class _Queue:
    """What of asyncio.Queue a subscription uses; one of these needs no event loop."""

    def __init__(self) -> None:
        self.found: list[Msg] = []

    def put_nowait(self, message: Msg) -> None:
        self.found.append(message)


@cache
def _inbox() -> _Inbox:
    return _Inbox()


def received(subject: bytes, headers: bytes, body: bytes, reply: bytes = ACK) -> Msg:
    """The message that comes of these.

    Raises:
        Wrong: None does, or the one behind it does not: the connection hears nothing any more.
    """
    inbox = _inbox()
    inbox.queue.found.clear()
    inbox.errors.clear()
    parser: Any = inbox.client._ps  # noqa: SLF001 - what reads the connection
    parser.reset()
    head = b" ".join(filter(None, (_token(subject), b"1", reply)))
    if headers:
        frame = b"HMSG %b %d %d\r\n%b%b\r\n" % (head, len(headers), len(headers) + len(body), headers, body)
    else:
        frame = b"MSG %b %d\r\n%b\r\n" % (head, len(body), body)
    reading = parser.parse(frame + _SENTINEL)
    try:
        reading.send(None)
    except StopIteration:
        pass
    else:
        raise Wrong("the connection waits for something before it hears on")
    match inbox.queue.found:
        case [message, last] if last.data == b"ok" and message.data == body:
            return message
    raise Wrong(f"of two messages {len(inbox.queue.found)} came: {inbox.errors}")


def _token(subject: bytes) -> bytes:
    """As a server would let it pass: without blanks, and not empty."""
    return _BLANKS.sub(b"", subject)[:1024] or b"x"
