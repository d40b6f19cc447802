"""What a caller of the client may have to catch.

    HeadraceError
    ├── ConnectionFailed         no nats-server answers, or the client was closed        (also a ConnectionError)
    │   └── AccessDenied         … or it answers, and does not let this user in or do it (also a PermissionError)
    ├── ModelNotFound            no worker has published such a model
    ├── InputError               an argument is wrong; nothing was sent                  (also a ValueError)
    ├── RequestFailed            a chunk was answered with an error code
    │   ├── Overloaded           the queue is full: retry later
    │   ├── DeadlineExceeded     no answer in time                                       (also a TimeoutError)
    │   └── ModelChanged         the fleet serves another revision than the one read
    ├── ItemsFailed              some texts have no vector or score, and the call asked for all or none
    ├── BulkError                a bulk job cannot go on
    │   ├── SourceError          its corpus cannot be read
    │   ├── SinkError            its vectors cannot be written, or read
    │   │   └── SinkRefused      … and never will be, as they are
    │   │       └── CardMismatch the sink holds vectors of another model, or made in another way
    │   ├── JobConflict          another job is in the way of this one
    │   │   └── ShardLost        … or another process has taken over a shard
    │   └── JobFailed            too many rows failed, or the fleet refused the work
    │       └── JobEnded         … or somebody ended the job elsewhere
    ├── PortTaken                an address cannot be listened on
    └── LocalFailed              an embedded nats-server or worker did not start

Catch HeadraceError for all of it. Each text says what to do next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace_contracts import ErrorCode


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why one text has no vector, or one document no score.

    Attributes:
        code: the error code of the contract.
        text: what was wrong with it.
    """

    code: ErrorCode
    text: str


class HeadraceError(Exception):
    """Base of what this package raises.

    Attributes:
        request_id: what logs and dead letters call the call that raised it; None where no call had begun.
    """

    request_id: str | None = None


class ConnectionFailed(HeadraceError, ConnectionError):
    """Raised when no nats-server answers at the URL, or the client is closed."""


class AccessDenied(ConnectionFailed, PermissionError):
    """Raised when nats-server does not take the credentials, or does not let their user do what was asked."""


class PortTaken(HeadraceError):
    """Raised when an address cannot be listened on; the text says why."""


class ModelNotFound(HeadraceError):
    """Raised when no worker has published the model."""


class InputError(HeadraceError, ValueError):
    """Raised when an argument is wrong. Nothing was sent."""


class RequestFailed(HeadraceError):
    """Raised when a chunk of the call was answered with an error code.

    Attributes:
        code: the error code of the contract.
        retry_after_s: when a retry makes sense, if it does.
    """

    def __init__(self, code: ErrorCode, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made anew from what they say alone, unless told otherwise.
        return type(self), (self.code, str(self), self.retry_after_s), vars(self)


class Overloaded(RequestFailed):
    """Raised when the queue is full; `retry_after_s` says when to come back."""


class DeadlineExceeded(RequestFailed, TimeoutError):
    """Raised when no answer came within the timeout."""


class ModelChanged(RequestFailed):
    """Raised when the fleet serves another revision of the model than the one this client has read."""


class ItemsFailed(HeadraceError):
    """Raised by a strict call when some texts have no vector, or some documents no score.

    Attributes:
        errors: the reason, by index of the text or document.
    """

    def __init__(self, errors: Mapping[int, ItemError], sent: str, missing: str) -> None:
        index, first = next(iter(errors.items()))
        what = f"1 {sent.removesuffix('s')} has" if len(errors) == 1 else f"{len(errors)} {sent} have"
        super().__init__(f"{what} no {missing}; the first is {sent}[{index}]: {first.code}: {first.text}")
        self.errors = errors
        self._nouns = sent, missing

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled.
        return type(self), (dict(self.errors), *self._nouns), {"request_id": self.request_id}


class BulkError(HeadraceError):
    """Base of what a bulk job raises. What it has written stays, and the same command goes on from there."""


class SourceError(BulkError):
    """Raised when a corpus cannot be read."""


class SinkError(BulkError):
    """Raised when a sink cannot be written to or read."""


class SinkRefused(SinkError):
    """Raised when a sink will never take what it was given, so that trying again is of no use."""


class CardMismatch(SinkRefused):
    """Raised when a sink holds vectors that those of the job cannot be compared with."""


class JobConflict(BulkError):
    """Raised when a job of this name does something else, or another job writes to the same sink."""


class ShardLost(JobConflict):
    """Raised when another process has taken over a shard that this one worked on, or its job was removed."""


class JobFailed(BulkError):
    """Raised when a job gives up: too many rows failed, or the fleet changed its model."""


class JobEnded(JobFailed):
    """Raised when somebody cancelled the job, or it has failed in another process."""


class LocalFailed(HeadraceError):
    """Raised when an embedded nats-server or worker did not start; the text holds its last words."""


def from_code(code: ErrorCode, text: str, retry_ms: int | None = None) -> RequestFailed:
    """The exception for an error code of the contract."""
    kind = {
        ErrorCode.OVERLOADED: Overloaded,
        ErrorCode.EXPIRED: DeadlineExceeded,
        ErrorCode.MODEL_MISMATCH: ModelChanged,
    }.get(code, RequestFailed)
    return kind(code, f"{code}: {text}", None if retry_ms is None else retry_ms / 1000)
