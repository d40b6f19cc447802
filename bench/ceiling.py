"""The most tokens a second that matrix products alone would allow, as a measure for the engine.

It knows the dense part of an encoder layer and how to time a product. It does not know attention, embeddings or norms:
an engine that reached the ceiling would do them in no time.
"""

from dataclasses import dataclass

import torch
from headrace_engine.models.bert import BertConfig
from timing import durations_ms

_TOKENS = 2048
# Products of one measurement: long enough that a moment of higher clock does not pass for what the machine can do.
_PRODUCTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What plain products reach here in one number format, at their fastest.

    Attributes:
        dtype: The format.
        product: Rows, inputs and outputs of the product that was timed.
        gflops: 10⁹ operations a second.
        tokens_per_s: Tokens whose dense part that would do.
    """

    dtype: str
    product: tuple[int, int, int]
    gflops: float
    tokens_per_s: float


class Product:
    """The first feed-forward product of a layer, over a batch that fills the machine.

    Sampled between the cases that it is a measure for, since a shared machine changes its speed within a minute.
    """

    def __init__(self, shape: BertConfig, dtype: torch.dtype) -> None:
        """Make operands.

        Args:
            shape: Of the model.
            dtype: The format to multiply in.
        """
        self._shape = shape
        self._rows = torch.randn(_TOKENS, shape.hidden_size).to(dtype)
        # As a model holds its weights: [outputs, inputs].
        self._weight = torch.randn(shape.intermediate_size, shape.hidden_size).to(dtype).t()
        self._durations_ms: list[float] = []

    @torch.inference_mode()
    def sample(self, seconds: float) -> None:
        """Measure for so many seconds. Nothing warms up: only the fastest run will count."""
        self._durations_ms += durations_ms(self._run, seconds)

    def ceiling(self) -> Ceiling:
        """What the samples come to; there must be one."""
        rows, inputs, outputs = _TOKENS, *reversed(self._weight.t().shape)
        flop = 2 * rows * inputs * outputs * _PRODUCTS
        flop_per_s = flop / min(self._durations_ms) * 1000
        return Ceiling(
            dtype=str(self._rows.dtype).removeprefix("torch."),
            product=(rows, inputs, outputs),
            gflops=flop_per_s / 1e9,
            tokens_per_s=flop_per_s / dense_flop(self._shape),
        )

    def _run(self) -> None:
        for _ in range(_PRODUCTS):
            torch.mm(self._rows, self._weight)


def dense_flop(shape: BertConfig) -> int:
    """Operations of one token in all linear layers: query, key, value, output, up and down."""
    width, inner = shape.hidden_size, shape.intermediate_size
    return 2 * shape.num_layers * (4 * width * width + 2 * width * inner)
