"""A model on a CUDA device, one step at a time: run, copy back, return at once.

It knows the one CUDA stream that everything is computed on, which keeps graphs that share memory apart. It does not
know what is captured.
"""

from collections.abc import Iterable

import torch

from headrace_engine.batch import RaggedBatch
from headrace_engine.buckets import GraphKey
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.graph import CudaEager
from headrace_engine.graphs import Graphs
from headrace_engine.lazy import LazyTensor


class CudaRunner:
    """See `Runner`.

    Attributes:
        max_in_flight: 2: the device computes one batch while the next one is queued behind it.
        graphs: What was captured, or None where nothing can be.
    """

    max_in_flight = 2

    def __init__(self, eager: CudaEager, graphs: Graphs | None, copies: Copies) -> None:
        """Run a model whose tensors are on the device already.

        Args:
            eager: Runs the model where there are no graphs.
            graphs: Runs it where there are, eagerly or by a graph; None where nothing can be captured.
            copies: How rows go out.
        """
        self.graphs: Graphs | None = graphs
        self._eager = eager
        self._copies = copies
        self._computing = torch.cuda.Stream(copies.device)
        # The tensors were loaded on another one.
        self._computing.wait_stream(torch.cuda.current_stream(copies.device))

    @property
    def wants_rest(self) -> bool:
        """Whether a graph waits for its capture."""
        return self.graphs is not None and self.graphs.num_waiting > 0

    def run(self, batch: RaggedBatch) -> LazyTensor:
        """Queue a batch of the host."""
        with torch.cuda.stream(self._computing):
            rows = self._eager.eager(batch) if self.graphs is None else self.graphs.run(batch)
            # A copy, since the next replay writes over a graph's rows while these may still be on their way. They are
            # in packed order without any dummy's, so the order of the batch itself leads back to the caller's.
            return self._copies.download(rows.clone(), batch.order)

    def warm_up(self, keys: Iterable[GraphKey]) -> None:
        """Capture graphs before they are hit."""
        if self.graphs is not None:
            with torch.cuda.stream(self._computing):
                self.graphs.warm_up(keys)

    def rest(self) -> None:
        """Capture one graph that waits."""
        if self.graphs is not None:
            with torch.cuda.stream(self._computing):
                self.graphs.rest()
