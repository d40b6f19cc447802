"""How a worker is told to drain and to take work again, and what it says of itself then.

Knows the JSON of requests and of the status, read as strictly as all of this contract. Does not know subjects
(subjects.py), nor NATS's micro protocol, by which both travel (contracts/wire.md, section 12).
"""

from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from headrace_contracts.errors import DecodeError
from headrace_contracts.messages import VERSION, Priority, WorkerState

Verb: TypeAlias = Literal["drain", "resume", "status"]

# Of the micro service that every worker is: `nats micro ls` shows it.
SERVICE = "headrace-worker"
# A worker keeps nobody waiting for longer: whoever wants to wait on asks again.
MAX_WAIT_MS = 10_000

_Uint: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_WaitMs: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=2.0**53)]
_Token: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}\\Z")]
_Name: TypeAlias = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}\\Z")]
_Hash: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{8,64}\\Z")]
_Text: TypeAlias = Annotated[str, Meta(max_length=4096)]


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is sent to a worker with any of the verbs.

    Attributes:
        v: version of the contract.
        wait_ms: a worker that drains answers when it has drained, or after this time.
    """

    v: int
    wait_ms: _WaitMs = 0


class ClassStatus(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker has of one class.

    Attributes:
        budget_bytes: that may be in hand or on their way.
        credit_bytes: that the broker may still send against open pulls.
        held_bytes: in hand.
        queued_chunks: in hand that wait for a step.
        queued_tokens: of these chunks.
        oldest_s: since the broker stored the oldest of them; 0 where there are none.
    """

    budget_bytes: _Uint
    credit_bytes: _Uint
    held_bytes: _Uint
    queued_chunks: _Uint
    queued_tokens: _Uint
    oldest_s: _Seconds


class Totals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker did since it started.

    Attributes:
        delivered: messages that came in.
        answered: chunks whose result was sent.
        refused: chunks that were answered with an error, for another reason than the next two.
        expired: chunks whose deadline passed before they could run.
        cancelled: chunks that their callers gave up before they could run.
        dead_lettered: messages kept in HR_DEAD; also counted as refused.
        given_back: messages that were given back to the broker.
        steps: that ran to the end.
        failed_steps: that raised.
        tokens: of the steps that ran to the end.
    """

    delivered: _Uint
    answered: _Uint
    refused: _Uint
    expired: _Uint
    cancelled: _Uint
    dead_lettered: _Uint
    given_back: _Uint
    steps: _Uint
    failed_steps: _Uint
    tokens: _Uint


class Status(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker says of itself.

    Attributes:
        v: version of the contract.
        worker: its name.
        model: that it serves.
        fingerprint: of that model.
        state: whether it takes work, finishes what it has, or has done so.
        waits_for: of a worker that drains: what it still waits for, in words; else empty.
        version: of its software.
        device: that it runs on.
        dtype: that it computes in.
        uptime_s: since it began to serve.
        rate: tokens/s that it takes itself for able to do; 0 while it does not know.
        step_tokens: tokens of one step at most.
        steps_in_flight: that the device has.
        held_chunks: in hand, of both classes, those in a step and those that wait for room for their result included.
        held_tokens: of these.
        online: what it has of this class.
        batch: what it has of this class.
        totals: since it started.
    """

    v: int
    worker: _Token
    model: _Name
    fingerprint: _Hash
    state: WorkerState
    waits_for: _Text
    version: _Text
    device: _Text
    dtype: _Text
    uptime_s: _Seconds
    rate: _Uint
    step_tokens: _Uint
    steps_in_flight: _Uint
    held_chunks: _Uint
    held_tokens: _Uint
    online: ClassStatus
    batch: ClassStatus
    totals: Totals

    def of(self, priority: Priority) -> ClassStatus:
        """What it has of a class."""
        return self.online if priority == "online" else self.batch


_requests = msgspec.json.Decoder(Request)
_statuses = msgspec.json.Decoder(Status)
_json = msgspec.json.Encoder()

_M = TypeVar("_M", Request, Status)


def encode_request(wait_ms: int = 0) -> bytes:
    """Encode a request.

    Args:
        wait_ms: a worker that drains answers when it has drained, or after this time; 0 … MAX_WAIT_MS.
    """
    return _json.encode(Request(v=VERSION, wait_ms=wait_ms))


def decode_request(data: bytes) -> Request:
    """Decode a request; an empty one asks for nothing but its verb, so that it can be typed by hand.

    Raises:
        DecodeError: `data` is not a request of this version.
    """
    return _decode(_requests, data) if data else Request(v=VERSION)


def encode_status(status: Status) -> bytes:
    """Encode what a worker says of itself."""
    return _json.encode(status)


def decode_status(data: bytes) -> Status:
    """Decode what a worker says of itself.

    Raises:
        DecodeError: `data` is not a status of this version.
    """
    return _decode(_statuses, data)


def _decode(decoder: msgspec.json.Decoder[_M], data: bytes) -> _M:
    try:
        found = decoder.decode(data)
    except (ValueError, RecursionError) as error:  # RecursionError: deep nesting
        raise DecodeError(f"not a message of this contract: {error}") from None
    if found.v != VERSION:
        raise DecodeError(f"v is {found.v}: this side speaks version {VERSION} of the wire contract")
    return found
