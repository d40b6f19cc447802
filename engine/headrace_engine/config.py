"""How one engine runs: its device, its number format, its threads, its attention and its graphs.

It knows what may be asked for. It does not know which model will run, nor what this machine has or is good at.
"""

import re
from dataclasses import dataclass, field

from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.attention.select import PUBLISHED, Row
from headrace_engine.graphs import GraphConfig

ATTENTION = ("auto", *OBSTACLES)
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The settings of an `Engine`, checked once here.

    Attributes:
        device: Where the model runs: "cpu", "cuda", "cuda:1", or "auto", which is the first CUDA device where there is
            one.
        dtype: The number format of weights and activations: "float32", "bfloat16", "float16", which is for the products
            of linear layers on a CPU and leaves all else in float32, or "auto", which is bfloat16 on a CUDA device, and
            on a CPU the one that it multiplies fastest, measured when the model is loaded.
        threads: The most threads an operation may use on a CPU; 0 leaves torch's own choice.
        attention: What computes attention, or "auto", which is the best known for the device and the model.
        table: Which attention is the faster one for which device and model; published figures, or measured ones.
        graphs: Which CUDA graphs there may be; None captures none. A CPU has none anyway.
        max_graph_tokens: Batches of more tokens run eagerly: their launches are hidden behind the work.
        warm_up: Batches to capture a graph for before the first one comes, each as (sequences, tokens of each). Where
            there are no graphs, there is nothing to do for them.

    Raises:
        ValueError: A field holds a value outside these.
    """

    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    attention: str = "auto"
    table: tuple[Row, ...] = PUBLISHED
    graphs: GraphConfig | None = field(default_factory=GraphConfig)
    max_graph_tokens: int = 4096
    warm_up: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            message = f"device={self.device!r} is unknown: set 'auto', 'cpu', 'cuda' or 'cuda:N'"
            raise ValueError(message)
        if self.dtype not in {"auto", "float32", "bfloat16", "float16"}:
            message = f"dtype={self.dtype!r} is unknown: set 'auto', 'float32', 'bfloat16' or 'float16'"
            raise ValueError(message)
        if self.threads < 0:
            message = f"threads={self.threads} is negative: set a number of threads, or 0 for torch's own choice"
            raise ValueError(message)
        if self.attention not in ATTENTION:
            message = f"attention={self.attention!r} is unknown: set one of {', '.join(ATTENTION)}"
            raise ValueError(message)
        if self.max_graph_tokens < 0:
            message = f"max_graph_tokens={self.max_graph_tokens} is negative: set a number of tokens, 0 for no graphs"
            raise ValueError(message)
        for sequences, tokens in self.warm_up:
            if sequences < 1 or tokens < 1:
                message = f"warm_up has {sequences} sequences of {tokens} tokens: set at least 1 of 1"
                raise ValueError(message)
