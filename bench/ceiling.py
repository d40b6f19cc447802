"""The most tokens a second that matrix products alone would allow, as a measure for the engine.

It knows the operations of an encoder layer and how to time a product. It does not count embeddings or norms: an engine
that reached the ceiling would do them in no time.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from headrace_engine.models import onednn
from headrace_engine.models.bert import BertConfig
from headrace_engine.models.onednn import OneDnn
from result import Ceiling
from timing import durations_ms

_TOKENS = 2048
_SQUARE = 1024
# Products of one measurement: long enough that a moment of higher clock does not pass for what the machine can do.
_PRODUCTS = 5


class Product:
    """The products of a layer over a batch that fills the machine, and a square one; the fastest of them counts.

    Each is run as torch multiplies, and with its weight laid out for oneDNN as the engine does. Sampled between the
    cases that it is a measure for, since a shared machine changes its speed within a minute.
    """

    def __init__(self, shape: BertConfig, dtype: torch.dtype) -> None:
        """Make operands.

        Args:
            shape: Of the model.
            dtype: The format to multiply in.
        """
        self._shape = shape
        self._dtype = dtype
        width, inner = shape.hidden_size, shape.intermediate_size
        sizes = [(_TOKENS, width, inner), (_TOKENS, inner, width), (_TOKENS, width, 3 * width), (_SQUARE,) * 3]
        self._runs = {size: tuple(_runs(*size, dtype)) for size in sizes}
        self._fastest_ms = dict.fromkeys(sizes, math.inf)

    @property
    def dtype(self) -> str:
        """The format, by its name."""
        return str(self._dtype).removeprefix("torch.")

    @torch.inference_mode()
    def sample(self, seconds: float) -> None:
        """Measure for so many seconds. Nothing warms up: only the fastest run will count."""
        share = seconds / sum(map(len, self._runs.values()))
        for size, runs in self._runs.items():
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


def _runs(num_rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> Iterator[Callable[[], None]]:
    rows, weight = torch.randn(num_rows, inputs).to(dtype), torch.randn(outputs, inputs).to(dtype)

    def plain() -> None:
        for _ in range(_PRODUCTS):
            torch.mm(rows, weight.t())

    yield plain
    if onednn.suits(weight):
        packed = OneDnn.pack(weight)

        def laid_out() -> None:
            for _ in range(_PRODUCTS):
                packed(rows, None)

        yield laid_out


def dense_flop(shape: BertConfig) -> int:
    """Operations of one token in all linear layers: query, key, value, output, up and down."""
    width, inner = shape.hidden_size, shape.intermediate_size
    return 2 * shape.num_layers * (4 * width * width + 2 * width * inner)


def flop(shape: BertConfig, lengths: Iterable[int]) -> int:
    """Operations of some texts: their linear layers, and both products of attention without padding."""
    return sum(dense_flop(shape) * length + 4 * shape.num_layers * shape.hidden_size * length**2 for length in lengths)
