"""A model on a CUDA device: run launch by launch, or captured in a CUDA graph and replayed.

It knows how a capture is made. It does not know when it is worth it: `headrace_engine.graphs` does. The rules come from
CUDA's programming guide on graphs and torch's notes on them (docs.pytorch.org/docs/stable/notes/cuda.html).
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch

from headrace_engine.attention import AttentionBackend, CapturableBackend, StaticAttention
from headrace_engine.batch import RaggedBatch
from headrace_engine.buckets import GraphKey
from headrace_engine.cuda.copies import Copies
from headrace_engine.model import Model
from headrace_engine.static_batch import StaticBatch


class CudaEager:
    """Runs a model launch by launch, on the current CUDA stream.

    Attributes:
        model: On the device of `copies`.
    """

    def __init__(self, model: Model, attention: AttentionBackend, copies: Copies) -> None:
        """Run `model` with `attention`, on batches that `copies` brings in."""
        self.model = model
        self._attention = attention
        self._copies = copies

    def eager(self, batch: RaggedBatch) -> torch.Tensor:
        """Queue a batch of the host: [N, dim] float32, in packed order."""
        there = self._copies.upload(batch)
        return self.model(there, self._attention.plan(there))


class CudaCaptures(CudaEager):
    """Captures it too.

    All graphs take their memory from one pool, in which each writes over what the others left: so only one may run at a
    time, which one CUDA stream sees to. Memory that was the pool's stays the pool's: what one graph gives back the next
    one gets.
    """

    def __init__(
        self,
        model: Model,
        attention: CapturableBackend,
        copies: Copies,
        *,
        has_segments: bool,
        has_skips: bool = False,
    ) -> None:
        """Begin without a graph.

        Args:
            model: On the device of `copies`.
            attention: What computes its attention.
            copies: How batches come in.
            has_segments: Whether the model has more than one segment.
            has_skips: Whether the model leaves prompts out of the pooling.
        """
        super().__init__(model, attention, copies)
        self._capturable = attention
        self._has_segments = has_segments
        self._has_skips = has_skips
        self._pool = torch.cuda.graph_pool_handle()
        self._captures = torch.cuda.Stream(copies.device)
        # A pool that no graph is left in takes no other one (c10/cuda/CUDACachingAllocator.cpp): this one stays.
        self._anchor = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._captures), _no_collection():
            _capture(self._anchor, self._pool, lambda: torch.zeros(1, device=copies.device))

    def capture(self, key: GraphKey) -> "CudaGraph":
        """Record the model for one shape.

        torch.cuda.graph would do, but that it waits for the whole device and hands all cached memory back first, which
        stalls whoever is being served.

        Raises:
            RuntimeError: It cannot be captured, or there is no memory for it.
        """
        device = self._copies.device
        before = torch.cuda.memory_reserved(device)
        static = StaticBatch.allocate(key, device, has_segments=self._has_segments, has_skips=self._has_skips)
        attention = self._capturable.plan_static(static.batch)
        num_bytes = torch.cuda.memory_reserved(device) - before
        computing = torch.cuda.current_stream(device)
        self._captures.wait_stream(computing)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(self._captures):
                # Whatever is compiled, looked up or allocated at a first call must be so before the capture.
                self.model(static.batch, attention)
                before = torch.cuda.memory_reserved(device)
                with _no_collection(), _own_workspaces():
                    rows = _capture(graph, self._pool, lambda: self.model(static.batch, attention))
        except BaseException:
            # What the first run still reads is about to be given back, and would be written over.
            self._captures.synchronize()
            raise
        computing.wait_stream(self._captures)
        # The driver's own memory for a graph is not in it: max_graphs bounds that.
        num_bytes += torch.cuda.memory_reserved(device) - before
        return CudaGraph(graph, static, attention, rows, self._copies, computing, num_bytes)


def _capture(graph: torch.cuda.CUDAGraph, pool: Any, run: Callable[[], torch.Tensor]) -> torch.Tensor:
    # Other threads wait for events meanwhile, which the default mode, "global", would take for a breach of the capture.
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        rows = run()
    except BaseException:
        # It fails too, but without it the CUDA stream would go on capturing; the first error says why.
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
    return rows


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from destroying events and graphs on this thread, which would break its capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _own_workspaces() -> Iterator[None]:
    """Have cuBLAS allocate its workspace within the capture, in the pool of the graph, and let go of it after.

    Otherwise it is one for the whole CUDA stream, which the release of any graph that was captured there gives back to
    the allocator, while all others still use it (github.com/pytorch/pytorch/issues/193402). torch's own cudagraph_trees
    does the same.
    """
    torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - there is no public name for it
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001


class CudaGraph:
    """A model captured for one shape.

    Attributes:
        num_bytes: By how much the device memory of this process grew for it.
    """

    def __init__(
        self,
        graph: torch.cuda.CUDAGraph,
        static: StaticBatch,
        attention: StaticAttention,
        rows: torch.Tensor,
        copies: Copies,
        computing: torch.cuda.Stream,
        num_bytes: int,
    ) -> None:
        """Hold what the graph reads and writes, so that it stays where it is."""
        self.num_bytes = num_bytes
        self._graph = graph
        self._static = static
        self._attention = attention
        self._rows = rows
        self._copies = copies
        self._computing = computing

    def replay(self, padded: RaggedBatch) -> torch.Tensor:
        """Queue a batch of the graph's sizes on the CUDA stream it was made for: its own rows, [num_sequences, dim]."""
        self._static.fill(padded, self._copies.write)
        self._attention.update(padded)
        self._graph.replay()
        return self._rows

    def release(self) -> None:
        """Give its memory back to the pool; waits for what is queued, since that may be this graph."""
        self._computing.synchronize()
        self._graph.reset()
