"""What goes wrong, as a kind, and the HTTP status that says so.

Knows the client's exceptions. Does not know how each API words an error: shapes.py does.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from headrace_contracts import ErrorCode

from headrace.errors import (
    ConnectionFailed,
    HeadraceError,
    InputError,
    ItemsFailed,
    ModelNotFound,
    RequestFailed,
)


class Kind(StrEnum):
    """What went wrong."""

    MALFORMED = "malformed"  # no JSON, or a header that cannot be read
    INVALID = "invalid"  # JSON that asks for what cannot be
    UNAUTHORIZED = "unauthorized"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_PATH = "unknown_path"
    WRONG_METHOD = "wrong_method"
    SLOW_BODY = "slow_body"
    TOO_LARGE = "too_large"
    ENCODED = "encoded"  # a body that is compressed
    OVERLOADED = "overloaded"
    CLIENT_GONE = "client_gone"
    INTERNAL = "internal"
    WORKER_FAILED = "worker_failed"
    UNAVAILABLE = "unavailable"
    EXPIRED = "expired"


STATUS = MappingProxyType(
    {
        Kind.MALFORMED: 400,
        Kind.INVALID: 422,
        Kind.UNAUTHORIZED: 401,
        Kind.UNKNOWN_MODEL: 404,
        Kind.UNKNOWN_PATH: 404,
        Kind.WRONG_METHOD: 405,
        Kind.SLOW_BODY: 408,
        Kind.TOO_LARGE: 413,
        Kind.ENCODED: 415,
        Kind.OVERLOADED: 429,
        Kind.CLIENT_GONE: 499,  # nginx's; nobody reads it but the metrics
        Kind.INTERNAL: 500,
        Kind.WORKER_FAILED: 502,
        Kind.UNAVAILABLE: 503,
        Kind.EXPIRED: 504,
    }
)

_BY_CODE = {
    ErrorCode.INVALID: Kind.INVALID,
    ErrorCode.TOO_LONG: Kind.INVALID,
    ErrorCode.NON_FINITE: Kind.INVALID,  # of this text, by this model, there is no finite vector
    ErrorCode.MODEL_MISMATCH: Kind.UNAVAILABLE,
    ErrorCode.EXPIRED: Kind.EXPIRED,
    ErrorCode.CANCELLED: Kind.UNAVAILABLE,
    ErrorCode.OVERLOADED: Kind.OVERLOADED,
    ErrorCode.UNAVAILABLE: Kind.UNAVAILABLE,
    ErrorCode.INTERNAL: Kind.WORKER_FAILED,
}
_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that went wrong.

    Attributes:
        kind: of what.
        text: for people: what, and what to do.
        field: of the request, where there is one.
        retry_after_s: when a retry makes sense, if it does.
    """

    kind: Kind
    text: str
    field: str | None = None
    retry_after_s: float | None = None


class Refused(Exception):
    """Raised when the gateway itself refuses a request.

    Attributes:
        problem: why.
    """

    def __init__(self, kind: Kind, text: str, *, field: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.problem = Problem(kind, text, field, retry_after_s)

    @classmethod
    def of(cls, problem: Problem) -> "Refused":
        """For this reason."""
        return cls(problem.kind, problem.text, field=problem.field, retry_after_s=problem.retry_after_s)


def problem_of(error: HeadraceError) -> Problem:
    """What an exception of the client says."""
    text = str(error)
    if isinstance(error, InputError):
        return Problem(Kind.INVALID, text)
    if isinstance(error, ModelNotFound):
        return Problem(Kind.UNKNOWN_MODEL, text, "model")
    if isinstance(error, ItemsFailed):
        return Problem(_BY_CODE[next(iter(error.errors.values())).code], text)
    if isinstance(error, RequestFailed):
        kind = _BY_CODE[error.code]
        may_retry = kind in {Kind.OVERLOADED, Kind.UNAVAILABLE}
        return Problem(kind, text, None, (error.retry_after_s or _RETRY_AFTER_S) if may_retry else error.retry_after_s)
    if isinstance(error, ConnectionFailed):
        return Problem(Kind.UNAVAILABLE, text, None, _RETRY_AFTER_S)
    return Problem(Kind.UNAVAILABLE, text, None, _RETRY_AFTER_S)
