"""What can go wrong between a producer and a worker, as both sides name it.

Knows the closed set of error codes and which of them are worth a retry. Does not know exceptions of the client or of
the engine: each component maps its own onto these codes at its edge.

    ContractError
    ├── DecodeError      bytes or headers that are not a valid message of this contract
    ├── InvalidName      a model, job or worker name that cannot be part of a subject
    └── CredentialsError an access file, or a file that it names, that cannot be used
"""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Why a chunk or one of its items has no result. The set is closed: a new code is a new version."""

    INVALID = "invalid"
    TOO_LONG = "too_long"
    MODEL_MISMATCH = "model_mismatch"
    NON_FINITE = "non_finite"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, unchanged."""
        return self in _RETRYABLE


_RETRYABLE = frozenset({ErrorCode.OVERLOADED, ErrorCode.UNAVAILABLE})


class ContractError(ValueError):
    """Base of what this package raises."""


class DecodeError(ContractError):
    """Raised when bytes or headers are not a valid message; the text names the field and what it held."""


class InvalidName(ContractError):
    """Raised when a name cannot be a subject token; the text says which characters can."""


class CredentialsError(ContractError):
    """Raised when an access file cannot be used; the text names the field and never a secret."""
