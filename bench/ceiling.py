"""The most tokens a second that matrix products alone would allow, as a measure for the engine.

It knows the operations of an encoder layer and how to time a product. It does not count embeddings or norms: an engine
that reached the ceiling would do them in no time.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

import torch
from headrace_engine.models import onednn
from headrace_engine.models.bert import BertConfig
from headrace_engine.models.onednn import OneDnn
from headrace_engine.models.packing import Panels, pack
from headrace_engine.precision import multiplies_float16, row_dtype
from result import Ceiling
from timing import durations_ms

_TOKENS = 2048
_SQUARE = 1024
# Products of one measurement: long enough that a moment of higher clock does not pass for what the machine can do.
_PRODUCTS = 5

Way: TypeAlias = Callable[[], torch.Tensor]
"""Multiplies rows [T, inputs] with a weight [outputs, inputs], both of its own; [T, outputs]."""


class Product:
    """The products of a layer over a batch that fills the machine, and a square one; the fastest of them counts.

    Each is run in all ways that there are in the format. Sampled between the cases that it is a measure for, since a
    shared machine changes its speed within a minute.
    """

    def __init__(self, shape: BertConfig, dtype: torch.dtype) -> None:
        """Make operands.

        Args:
            shape: Of the model.
            dtype: The format to multiply in, one of `formats`.
        """
        self._shape = shape
        self._dtype = dtype
        width, inner = shape.hidden_size, shape.intermediate_size
        sizes = [(_TOKENS, width, inner), (_TOKENS, inner, width), (_TOKENS, width, 3 * width), (_SQUARE,) * 3]
        self._ways = {size: tuple(map(_several, ways(*size, dtype))) for size in sizes}
        self._fastest_ms = dict.fromkeys(sizes, math.inf)

    @property
    def dtype(self) -> str:
        """The format, by its name."""
        return str(self._dtype).removeprefix("torch.")

    @torch.inference_mode()
    def sample(self, seconds: float) -> None:
        """Measure for so many seconds. Nothing warms up: only the fastest run will count."""
        share = seconds / sum(map(len, self._ways.values()))
        for size, runs in self._ways.items():
            for run in runs:
                self._fastest_ms[size] = min(self._fastest_ms[size], *durations_ms(run, share))

    def ceiling(self) -> Ceiling:
        """What the samples come to; there must be one."""
        rates = {size: 2 * math.prod(size) * _PRODUCTS / ms * 1000 for size, ms in self._fastest_ms.items()}
        fastest = max(rates, key=lambda size: rates[size])
        return Ceiling(
            dtype=self.dtype,
            product=fastest,
            gflops=rates[fastest] / 1e9,
            tokens_per_s=rates[fastest] / dense_flop(self._shape),
        )


def _several(way: Way) -> Callable[[], None]:
    def run() -> None:
        for _ in range(_PRODUCTS):
            way()

    return run


def formats() -> tuple[torch.dtype, ...]:
    """What there are products in; float16 only where torch or the engine multiplies it as it is.

    Elsewhere torch would take half a second for one of these, and the engine multiplies in float32 then.
    """
    both = (torch.bfloat16, torch.float32)
    return (*both, torch.float16) if _torch_has_float16() or multiplies_float16() else both


def ways(num_rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> Iterator[Way]:
    """The same product as torch multiplies, with the weight laid out for oneDNN, and by the engine's own kernels.

    Args:
        num_rows: T.
        inputs: Of the weight.
        outputs: Of the weight.
        dtype: The format, one of `formats`.
    """
    of = row_dtype(dtype)
    rows, weight = torch.randn(num_rows, inputs).to(of), torch.randn(outputs, inputs).to(of)
    if dtype != torch.float16 or _torch_has_float16():
        yield partial(torch.mm, rows.to(dtype), weight.to(dtype).t())
    if onednn.suits(weight.to(dtype)):
        yield partial(OneDnn.pack(weight.to(dtype)), rows.to(dtype), None)
    own = pack(weight, dtype)
    # What it comes to without kernels of our own is one of the others.
    if isinstance(own, Panels) and (dtype != torch.float16 or multiplies_float16()):
        yield partial(own, rows, None)


def _torch_has_float16() -> bool:
    name = "_is_mkldnn_fp16_supported"
    return hasattr(torch.ops.mkldnn, name) and bool(getattr(torch.ops.mkldnn, name)())


def dense_flop(shape: BertConfig) -> int:
    """Operations of one token in all linear layers: query, key, value, output, up and down."""
    width, inner = shape.hidden_size, shape.intermediate_size
    return 2 * shape.num_layers * (4 * width * width + 2 * width * inner)


def flop(shape: BertConfig, lengths: Iterable[int]) -> int:
    """Operations of some texts: their linear layers, and both products of attention without padding."""
    return sum(dense_flop(shape) * length + 4 * shape.num_layers * shape.hidden_size * length**2 for length in lengths)
