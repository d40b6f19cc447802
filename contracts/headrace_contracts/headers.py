"""The headers of a chunk: only what the broker or a worker needs before it decodes the body.

Knows their names and spelling. Does not know the body; the two meet in the worker.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace_contracts import subjects
from headrace_contracts.errors import DecodeError, InvalidName

MSG_ID = "Nats-Msg-Id"
REPLY_TO = "Hr-Reply"
DEADLINE = "Hr-Deadline"
TOKENS = "Hr-Tokens"
TENANT = "Hr-Tenant"
REQUEST = "Hr-Request"
TRACEPARENT = "traceparent"  # W3C Trace Context, https://www.w3.org/TR/trace-context/
# On chunks of an atomic batch: ADR-50 of NATS.
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
# On dead letters.
REASON = "Hr-Reason"
DELIVERIES = "Hr-Deliveries"

# What begins so tells the broker what to do with the message.
_BROKERS = "Nats-"
_MAX_UINT = 2**63 - 1
# What may be written as the name of a header (RFC 9110, section 5.6.2).
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MAX_TEXT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The parsed headers of one chunk.

    Attributes:
        reply_to: subject for the reply: an inbox, or a results subject.
        deadline_ms: unix time in ms after which nobody waits for the reply; None waits for ever.
        tokens: number of token ids in the body, for those who meter without decoding.
        tenant: whose share of the fleet it counts against; None is a tenant like any other.
        msg_id: key under which the broker drops a second copy within the NATS stream's duplicate window.
        traceparent: W3C trace context of the caller, passed through as it came.
        request_id: the name that the caller gave the call which the chunk is a part of; None if that has none but ours.

    Raises:
        InvalidName: `tenant`, `request_id`, `msg_id` or `traceparent` cannot stand in a header.
    """

    reply_to: str
    tokens: int
    deadline_ms: int | None = None
    tenant: str | None = None
    msg_id: str | None = None
    traceparent: str | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if self.tenant is not None:
            subjects.token(self.tenant, "tenant")
        if self.request_id is not None:
            subjects.token(self.request_id, "request_id")
        for name, value in ((MSG_ID, self.msg_id), (TRACEPARENT, self.traceparent)):
            # A line break would start a header of its own.
            if value is not None and not (value.isascii() and value.isprintable() and len(value) <= _MAX_TEXT):
                raise InvalidName(
                    f"header {name} {value[:80]!r} will not do: use 1 to {_MAX_TEXT} printable ASCII letters"
                )

    def to_headers(self) -> dict[str, str]:
        """Spell the envelope as NATS headers."""
        headers = {REPLY_TO: self.reply_to, TOKENS: str(self.tokens)}
        if self.deadline_ms is not None:
            headers[DEADLINE] = str(self.deadline_ms)
        if self.tenant is not None:
            headers[TENANT] = self.tenant
        if self.msg_id is not None:
            headers[MSG_ID] = self.msg_id
        if self.traceparent is not None:
            headers[TRACEPARENT] = self.traceparent
        if self.request_id is not None:
            headers[REQUEST] = self.request_id
        return headers

    @classmethod
    def from_headers(cls, headers: Mapping[str, str] | None) -> "Envelope":
        """Parse NATS headers.

        Raises:
            DecodeError: a header is missing or malformed, or the reply subject is not one that workers may publish to.
        """
        found = headers or {}
        deadline = found.get(DEADLINE)
        try:
            return cls(
                reply_to=reply_to(found),
                tokens=_uint(TOKENS, found.get(TOKENS)),
                deadline_ms=None if deadline is None else _uint(DEADLINE, deadline),
                tenant=_token(TENANT, found.get(TENANT), "tenant"),
                msg_id=found.get(MSG_ID),
                traceparent=found.get(TRACEPARENT),
                request_id=_token(REQUEST, found.get(REQUEST), "request_id"),
            )
        except InvalidName as error:  # of a value that could not be written, and came all the same
            raise DecodeError(str(error)) from None


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that a message keeps when it is published anew: those that can be, and tell the broker nothing.

    One of an atomic batch, say, would be refused as a part of a batch that has long been committed. And more is read
    than is written: names of any letters, and values with line breaks, which could begin headers of any name.
    """
    return {
        str(name): value
        for name, value in headers.items()
        if not name.startswith(_BROKERS) and _NAME.fullmatch(name) and "\n" not in value and "\r" not in value
    }


def name_in(headers: Mapping[str, str], header: str) -> str | None:
    """The name in TENANT or REQUEST, for whoever tells of a message, not of what it asks; None where it is no token.

    What a stranger may write there instead has no bounds: it belongs into no log.
    """
    value = headers.get(header)
    try:
        return None if value is None else subjects.token(value, header)
    except InvalidName:
        return None


def reply_to(headers: Mapping[str, str] | None) -> str:
    """The reply subject alone, so that a message whose other headers are broken can still be answered.

    Raises:
        DecodeError: it is missing, or not one that workers may publish to.
    """
    value = (headers or {}).get(REPLY_TO)
    if value is None:
        raise DecodeError(f"header {REPLY_TO} is missing: say where the reply goes")
    if not subjects.is_reply_to(value):
        raise DecodeError(
            f"header {REPLY_TO} is {value[:80]!r}: it must lie under {subjects.INBOX_ROOT}. or {subjects.RESULTS_ROOT}."
        )
    return value


def _token(name: str, value: str | None, what: str) -> str | None:
    try:
        return None if value is None else subjects.token(value, what)
    except InvalidName as error:
        raise DecodeError(f"header {name}: {error}") from None


def _uint(name: str, value: str | None) -> int:
    # isascii: isdecimal alone would also take digits of other scripts.
    if value is None or len(value) > 19 or not (value.isascii() and value.isdecimal()) or int(value) > _MAX_UINT:
        shown = None if value is None else value[:40]
        raise DecodeError(f"header {name} is {shown!r}: it must be a decimal number below 2^63")
    return int(value)
