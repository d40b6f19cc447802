"""The keyword arguments of a call, checked against the model before anything is sent.

Knows what each may be. Does not know texts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeGuard, TypeVar

from headrace_contracts import PRIORITIES, Dtype, InvalidName, ModelSpec, Options, Priority, Task, subjects

from headrace.errors import InputError
from headrace.traceparent import check_traceparent

T = TypeVar("T")

# How long a call waits when it does not say: somebody waits for online, batch stands in a queue.
DEFAULT_TIMEOUT_S: dict[Priority, float] = {"online": 30, "batch": 3600}
# Thirty years. Deadlines travel as whole milliseconds of limited width.
_LONGEST_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions(ABC):
    """What all calls take; see Client.

    Attributes:
        task: what the model must be able to do.
    """

    task: ClassVar[Task]

    priority: Priority = "online"
    prompt_name: str | None = None
    timeout: float | None = None
    truncate: bool = True
    strict: bool = False
    tenant: str | None = None
    retries: int | None = 0
    traceparent: str | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        check_token("request_id", self.request_id)
        if self.priority not in PRIORITIES:
            raise InputError(f"priority is {self.priority!r}: choose one of {', '.join(PRIORITIES)}")
        _require_bool("truncate", self.truncate)
        _require_bool("strict", self.strict)
        check_timeout(self.timeout)
        if self.traceparent is not None:
            check_traceparent(self.traceparent)
        if self.retries is not None and not (_is_number(self.retries, int) and self.retries >= 0):
            raise InputError(f"retries is {self.retries!r}: it must be a whole number from 0, or None for no limit")

    @property
    def timeout_s(self) -> float:
        """Seconds that the call may take."""
        return DEFAULT_TIMEOUT_S[self.priority] if self.timeout is None else self.timeout

    @abstractmethod
    def for_model(self, spec: ModelSpec) -> Options:
        """The part that travels.

        Raises:
            InputError: the model cannot do it.
        """

    def prompt(self, spec: ModelSpec) -> str:
        """The text to put before each input, or to instruct the model with.

        Raises:
            InputError: the model has no such prompt.
        """
        name = self.prompt_name or spec.default_prompt
        if name is None:
            return ""
        if name not in spec.prompts:
            raise InputError(
                f"prompt_name is {name!r}: {spec.name} has {', '.join(sorted(spec.prompts)) or 'no prompts'}"
            )
        return spec.prompts[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions(CallOptions):
    """How to embed; see Client.embed."""

    task: ClassVar[Task] = "embed"

    dim: int | None = None
    dtype: Dtype | None = None
    normalize: bool | None = None

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that this method was written in.
        CallOptions.__post_init__(self)
        if self.normalize is not None:
            _require_bool("normalize", self.normalize)

    def for_model(self, spec: ModelSpec) -> Options:
        """The part that travels; what is None is as the model's authors meant it.

        Raises:
            InputError: the model cannot do it.
        """
        dtype = self.dtype or spec.default_dtype
        if dtype not in spec.dtypes:
            raise InputError(f"dtype is {dtype!r}: {spec.name} replies in {', '.join(spec.dtypes)}")
        if self.dim is not None and not (_is_number(self.dim, int) and 1 <= self.dim <= spec.dim):
            raise InputError(f"dim is {self.dim!r}: vectors of {spec.name} have 1 to {spec.dim} dimensions")
        normalize = spec.normalize if self.normalize is None else self.normalize
        return Options(dim=self.dim, dtype=dtype, normalize=normalize)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(CallOptions):
    """How to score; see Client.score."""

    task: ClassVar[Task] = "score"

    top_n: int | None = None
    raw: bool = False

    def __post_init__(self) -> None:
        CallOptions.__post_init__(self)  # not super(): see EmbedOptions
        _require_bool("raw", self.raw)
        if self.top_n is not None:
            check_count("top_n", self.top_n)

    def for_model(self, spec: ModelSpec) -> Options:  # noqa: ARG002 - scores are the same kind of number for all models
        """The part that travels."""
        return Options(dim=1, dtype="f32", raw=self.raw)


def check_tenant(tenant: object) -> None:
    """See that a tenant's name can stand in a header.

    Raises:
        InputError: it cannot.
    """
    check_token("tenant", tenant, "the client's own")


def check_token(name: str, value: object, default: str = "one that is made") -> None:
    """See that a name can stand in a header; None is as good.

    Raises:
        InputError: it cannot.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}: pass a str, or None for {default}")
    try:
        subjects.token(value, name)
    except InvalidName as error:
        raise InputError(str(error)) from None


def check_timeout(timeout: object) -> None:
    """Refuse what is no time to wait; None is one.

    Raises:
        InputError: it is no number of seconds above 0, or more of them than a deadline can say.
    """
    if timeout is not None and not (_is_number(timeout, (int, float)) and 0 < timeout <= _LONGEST_S):
        raise InputError(f"timeout is {timeout!r}: it must be a number of seconds above 0, at most {_LONGEST_S:,}")


def check_count(name: str, value: object) -> None:
    """Refuse what is no number of things.

    Raises:
        InputError: it is no whole number above 0.
    """
    if not (_is_number(value, int) and value >= 1):
        raise InputError(f"{name} is {value!r}: it must be a whole number above 0")


def check_share(name: str, value: object) -> None:
    """Refuse what is no share of a whole.

    Raises:
        InputError: it is no number between 0 and 1, or one of these.
    """
    if not (_is_number(value, (int, float)) and 0 < value < 1):
        raise InputError(f"{name} is {value!r}: it must be a number above 0 and below 1")


def _require_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}: pass True or False")


def _is_number(value: object, kind: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    # bool is a kind of int, and never meant here.
    return isinstance(value, kind) and not isinstance(value, bool)
