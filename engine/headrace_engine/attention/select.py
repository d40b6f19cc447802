"""Which attention backend runs a model on a device, and why.

Pure decisions. It knows the rules of each backend and a table of what is fast. The table is made of published figures,
not of measurements: it is a value, and a measured one can be handed in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.rules import OBSTACLES, Capability, obstacle, text
from headrace_engine.errors import UnsupportedModel

AUTO = "auto"
_OF_KIND = {"cpu": ("ragged",), "cuda": ("fa2", "fa3", "fa4", "varlen")}  # sdpa is for both
_ANY = 10**9  # tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What is known of a device.

    Attributes:
        kind: "cpu" or "cuda".
        name: What its maker calls it.
        capability: Of a CUDA device, such as (9, 0).
    """

    kind: Literal["cpu", "cuda"]
    name: str
    capability: Capability | None = None

    def __str__(self) -> str:
        """Name it for a person."""
        return self.name if self.capability is None else f"{self.name}, compute capability {text(self.capability)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is to be run on what.

    Attributes:
        device: The device.
        shapes: Those of the model's layers.
        dtype: Of query, key and value.
        max_length: The most tokens of a sequence.
    """

    device: DeviceFacts
    shapes: tuple[AttentionShape, ...]
    dtype: torch.dtype
    max_length: int

    @property
    def head_dim(self) -> int:
        """The width of the widest head."""
        return max(shape.head_dim for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Backends in order of speed, for some devices and models.

    Attributes:
        capabilities: From the first to below the second.
        head_dims: From the first to the second.
        max_length: Models of up to so many tokens a sequence.
        order: The fastest first.
        source: Where that is known from.
    """

    capabilities: tuple[Capability, Capability]
    head_dims: tuple[int, int] = (1, 256)
    max_length: int = _ANY
    order: tuple[str, ...]
    source: str

    def fits(self, capability: Capability, case: Case) -> bool:
        """Whether it is for such a device and model."""
        first, last = self.head_dims
        return (
            self.capabilities[0] <= capability < self.capabilities[1]
            and first <= case.head_dim <= last
            and case.max_length <= self.max_length
        )


# The first row that fits counts. What a backend cannot compute at all is left to its rules: fa2 and fa3 stand in rows
# that include heads of 32, and fall out for them. How long "very long" is, Perplexity does not say: 8,192 is a guess.
PUBLISHED: tuple[Row, ...] = (
    Row(
        capabilities=((8, 0), (9, 0)),
        order=("fa2", "varlen"),
        source="both are FlashAttention 2's algorithm, and FlashInfer balances uneven lengths (arXiv:2501.01005)",
    ),
    Row(
        capabilities=((9, 0), (10, 0)),
        max_length=8192,
        order=("fa4", "fa3", "fa2", "varlen"),
        source="Perplexity reports FlashAttention 4 as generally the faster one in their embedding engine",
    ),
    Row(
        capabilities=((9, 0), (10, 0)),
        order=("fa3", "fa4", "fa2", "varlen"),
        source="Perplexity reports FlashInfer's fa3 ahead on Qwen-based models at very long sequences",
    ),
    Row(
        capabilities=((10, 0), (12, 0)),
        order=("fa4", "fa2", "varlen"),
        source="fa4 is the only one here written for Blackwell",
    ),
    Row(
        capabilities=((12, 0), (13, 0)),
        order=("fa2", "varlen", "fa4"),
        source="no figures are known for this generation: the order is that of age",
    ),
    Row(capabilities=((0, 0), (99, 0)), order=("varlen", "fa2", "fa3", "fa4"), source="no figures are known"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend for a model, and why.

    Attributes:
        backend: "fa2", "fa3", "fa4", "varlen", "ragged" or "sdpa".
        reason: Why it, for a person.
        others: Why each other one was not chosen.
    """

    backend: str
    reason: str
    others: Mapping[str, str]


def choose(case: Case, missing: Mapping[str, str], override: str = AUTO, table: Sequence[Row] = PUBLISHED) -> Choice:
    """Choose the backend that the table holds for the fastest, of those that can run all shapes and are installed.

    Args:
        case: What is to be run on what.
        missing: What stands in the way of each backend that is not installed: see `missing_backends`.
        override: A backend to take whatever the table says; "auto" takes the table.
        table: Orders of speed; the first row that fits counts.

    Raises:
        ValueError: There is no backend of the name in `override`.
        UnsupportedModel: The one in `override` cannot run the model here; the message says why.
    """
    if override != AUTO and override not in OBSTACLES:
        message = f"attention={override!r} is unknown: set one of {AUTO}, {', '.join(OBSTACLES)}"
        raise ValueError(message)
    obstacles = {name: reason for name in OBSTACLES if (reason := _obstacle(name, case, missing)) is not None}
    if override != AUTO:
        if override in obstacles:
            message = f"attention={override!r} cannot run this model here: {obstacles[override]}"
            raise UnsupportedModel(message)
        return Choice(override, "it was asked for by name", _others(override, obstacles, "another was asked for"))
    order, source = _order(case, table)
    backend = next(name for name in (*order, *OBSTACLES) if name not in obstacles)  # sdpa takes everything
    return Choice(
        backend,
        _reason(backend, order, source),
        _others(backend, obstacles, f"it could run the model, but {backend} comes first"),
    )


def _obstacle(name: str, case: Case, missing: Mapping[str, str]) -> str | None:
    if name in _OF_KIND["cuda" if case.device.kind == "cpu" else "cpu"]:
        return "it is for CUDA devices" if case.device.kind == "cpu" else "it is for CPUs"
    for shape in case.shapes:
        reason = obstacle(name, shape, case.dtype, case.device.capability)
        if reason is not None:
            return reason
    return missing.get(name)


def _order(case: Case, table: Sequence[Row]) -> tuple[tuple[str, ...], str]:
    capability = case.device.capability
    if case.device.kind == "cpu" or capability is None:
        return ("ragged", "sdpa"), "ragged is Headrace's own kernel for CPUs"
    row = next((row for row in table if row.fits(capability, case)), None)
    return ((), "the table has no row for it") if row is None else (row.order, row.source)


def _reason(backend: str, order: tuple[str, ...], source: str) -> str:
    if backend == "sdpa" and backend not in order:
        return "none of the faster ones can run the model here"
    if not order or backend == order[0]:
        return source
    if backend in order:
        return f"the first of {', '.join(order)} that can run it: {source}"
    return f"none of {', '.join(order)} can run it, and the table does not order the others"


def _others(backend: str, obstacles: Mapping[str, str], otherwise: str) -> dict[str, str]:
    return {name: obstacles.get(name, otherwise) for name in OBSTACLES if name != backend}
