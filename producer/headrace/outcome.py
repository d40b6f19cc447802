"""What may come of a published chunk, and how the broker's and the workers' answers are read as that.

Knows PubAcks and their error codes. Does not know what to do about an outcome: pending.py does.
"""

import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, TypeAlias, TypeGuard

from headrace_contracts import DecodeError, ErrorCode, ErrorReply, Reply, decode_reply

# JetStream error codes: the NATS stream's limit, the server's or the account's resources, too many requests at once.
FULL = frozenset({10077, 10023, 10002, 10167})
TOO_LARGE = 10054  # no retry makes it fit


class Outcome(Enum):
    """What else than a reply can come of a published chunk."""

    STORED = auto()  # the broker has it
    FULL = auto()  # the broker has no room for it there
    MISSING = auto()  # no NATS stream takes the subject, for now
    UNCONFIRMED = auto()  # nothing came back
    FORBIDDEN = auto()  # the user may not publish there, or not hear the answer
    CLOSED = auto()  # nobody will be told any more
    LOST = auto()  # it may be gone, and its reply too: the connection was made anew, or it grew too old in the queue
    RESTED = auto()  # the pause before the next publish is over


Event: TypeAlias = Outcome | Reply | ErrorReply


def is_refusal(event: Event) -> TypeGuard[ErrorReply]:
    """Whether nothing ran, and the same chunk may fare better later."""
    return isinstance(event, ErrorReply) and event.code.retryable


def is_final(event: Event) -> bool:
    """Whether no later try can change it."""
    return event in {Outcome.CLOSED, Outcome.FORBIDDEN} or (
        isinstance(event, Reply | ErrorReply) and not is_refusal(event)
    )


def read_ack(data: bytes) -> Event:
    """A PubAck (JetStream API, PubAckResponse), or the status of a subject that nobody listens on."""
    if not data:
        return Outcome.MISSING
    try:
        error = ack_error(data)
    except ValueError:
        return Outcome.UNCONFIRMED  # whoever wrote it, it says nothing
    if error is None:
        return Outcome.STORED
    code = error.get("err_code")
    if code == TOO_LARGE:
        return by_broker(ErrorCode.TOO_LONG, f"the broker refused it: {error}")
    return Outcome.FULL if code in FULL else Outcome.MISSING


def ack_error(data: bytes) -> Mapping[str, Any] | None:
    """The error that a PubAck tells of; None where what was published is stored.

    Raises:
        ValueError: it is no PubAck.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"no PubAck: {data[:200]!r}") from None
    error = found.get("error") if isinstance(found, dict) else found
    if isinstance(found, dict) and error is None:
        return None
    if not isinstance(found, dict) or not isinstance(error, dict) or not isinstance(error.get("err_code", 0), int):
        raise ValueError(f"no PubAck: {data[:200]!r}")
    return error


def read_reply(data: bytes) -> Event:
    """The reply of a worker."""
    try:
        return decode_reply(data)
    except DecodeError as error:
        text = f"a worker sent a reply that this client cannot read: {error}"
        return ErrorReply(id="", code=ErrorCode.INTERNAL, text=text, worker="unknown")


def by_broker(code: ErrorCode, text: str, retry_ms: int | None = None) -> ErrorReply:
    """The broker's refusal, as a worker would say it."""
    return ErrorReply(id="", code=code, text=text, retry_ms=retry_ms, worker="broker")
