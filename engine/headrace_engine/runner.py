"""How a model meets its device: the interface, and the plain way of the CPU.

It knows that rows go back in the caller's order. It does not know where a batch came from.
"""

from typing import Protocol

import torch

from headrace_engine.attention import AttentionBackend
from headrace_engine.batch import RaggedBatch
from headrace_engine.graphs import Graphs
from headrace_engine.lazy import LazyTensor
from headrace_engine.model import Model

# A large batch goes through the model in parts whose rows stay in a processor's caches from one layer to the next.
MAX_PART_TOKENS = 1024


class Runner(Protocol):
    """Runs batches on one device; one thread at a time."""

    @property
    def max_in_flight(self) -> int:
        """How many batches may be queued on the device before the first one's rows are read; 1 where none can wait."""

    def run(self, batch: RaggedBatch) -> LazyTensor:
        """Queue a batch: [N, dim] float32 in the caller's order, once read."""

    @property
    def graphs(self) -> Graphs | None:
        """What was captured, with its counters; None where nothing can be."""

    @property
    def wants_rest(self) -> bool:
        """Whether there is work for an idle moment, such as a graph to capture."""

    def rest(self) -> None:
        """Do one piece of it."""


class EagerRunner:
    """Runs each batch at once, where tensors and host are the same memory.

    Attributes:
        max_in_flight: 1: a batch is done when `run` returns.
        graphs: None.
        wants_rest: False: nothing is put off.
    """

    max_in_flight = 1
    graphs = None
    wants_rest = False

    def __init__(self, model: Model, attention: AttentionBackend, max_part_tokens: int = MAX_PART_TOKENS) -> None:
        """Run `model` with `attention`, a part of a batch at a time."""
        self._model = model
        self._attention = attention
        self._max_part_tokens = max_part_tokens

    def run(self, batch: RaggedBatch) -> LazyTensor:
        """See `Runner.run`; the rows are there when it returns."""
        rows = [self._model(part, self._attention.plan(part)) for part in batch.parts(self._max_part_tokens)]
        return LazyTensor(rows[0] if len(rows) == 1 else torch.cat(rows), batch.order)

    def rest(self) -> None:
        """Nothing waits here."""
