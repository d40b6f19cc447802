"""The keyword arguments of a call, checked against the model before anything is sent.

Knows what each may be. Does not know texts.
"""

import math
from dataclasses import dataclass

from headrace_contracts import PRIORITIES, Dtype, ModelSpec, Options, Priority

from headrace.errors import InputError

# How long a call waits when it does not say: somebody waits for online, batch stands in a queue.
DEFAULT_TIMEOUT_S: dict[Priority, float] = {"online": 30, "batch": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions:
    """How to embed; see Client.embed."""

    priority: Priority = "online"
    prompt_name: str | None = None
    dim: int | None = None
    dtype: Dtype = "f32"
    normalize: bool | None = None
    timeout: float | None = None
    truncate: bool = True
    strict: bool = False

    def __post_init__(self) -> None:
        if self.priority not in PRIORITIES:
            raise InputError(f"priority is {self.priority!r}: choose one of {', '.join(PRIORITIES)}")
        if self.timeout is not None and not (_is_number(self.timeout, (int, float)) and 0 < self.timeout < math.inf):
            raise InputError(f"timeout is {self.timeout!r}: it must be a number of seconds above 0")

    @property
    def timeout_s(self) -> float:
        """Seconds that the call may take."""
        return DEFAULT_TIMEOUT_S[self.priority] if self.timeout is None else self.timeout

    def for_model(self, spec: ModelSpec) -> Options:
        """The part that travels.

        Raises:
            InputError: the model cannot do it.
        """
        if self.dtype not in spec.dtypes:
            raise InputError(f"dtype is {self.dtype!r}: {spec.name} replies in {', '.join(spec.dtypes)}")
        if self.dim is not None and not (_is_number(self.dim, int) and 1 <= self.dim <= spec.dim):
            raise InputError(f"dim is {self.dim!r}: vectors of {spec.name} have 1 to {spec.dim} dimensions")
        normalize = spec.normalize if self.normalize is None else self.normalize
        return Options(dim=self.dim, dtype=self.dtype, normalize=normalize)

    def prompt(self, spec: ModelSpec) -> str:
        """The text to put before each input.

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


def _is_number(value: object, kind: type | tuple[type, ...]) -> bool:
    # bool is a kind of int, and never meant here.
    return isinstance(value, kind) and not isinstance(value, bool)
