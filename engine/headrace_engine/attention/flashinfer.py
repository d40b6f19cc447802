"""FlashInfer's ragged kernels, fa2 and fa3: plans for batches, and for graphs.

It knows FlashInfer's wrapper and how much memory to give it. It does not know when that memory may be written again:
`headrace_engine.attention.flashinfer_plan` does.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.flashinfer_plan import FlashInferAttention, StaticFlashInferAttention
from headrace_engine.attention.rules import require
from headrace_engine.attention.workspace import Kernel, Workspace
from headrace_engine.batch import RaggedBatch
from headrace_engine.errors import UnsupportedModel
from headrace_engine.staging import Event

# Makes a wrapper: BatchPrefillWithRaggedKVCacheWrapper, or what a test puts in its place.
MakeWrapper = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashInferConfig:
    """What a backend is made for.

    Attributes:
        kernel: "fa2" or "fa3".
        device: A CUDA device.
        dtype: Of query, key, value and result.
        num_sms: The device's streaming multiprocessors.
        max_graph_tokens: No graph is planned for more tokens; 0 where there are none.
        max_workspace_bytes: The most memory for partial results. A graph that could need more is refused.
        depth: How many plans may wait for their copies outside graphs; 2 let one be made while the other is used.
    """

    kernel: Kernel
    device: torch.device
    dtype: torch.dtype
    num_sms: int
    max_graph_tokens: int = 4096
    max_workspace_bytes: int = 256 * 2**20
    depth: int = 2


class FlashInferBackend:
    """Makes plans: outside graphs `depth` of them in turn, for graphs one each.

    Attributes:
        bakes_max_seqlen: False: a launch covers the worst lengths of its sizes, and reads the real ones at each replay.
        num_bytes: The memory of the device that all plans share.
    """

    bakes_max_seqlen = False

    def __init__(
        self,
        config: FlashInferConfig,
        shapes: Iterable[AttentionShape],
        record_event: Callable[[], Event],
        make_wrapper: MakeWrapper | None = None,
    ) -> None:
        """Allocate what all plans share, and the plans outside graphs.

        Args:
            config: What for.
            shapes: Those of the model's layers.
            record_event: Records an event behind all that the current CUDA stream has queued.
            make_wrapper: The wrapper's class; None imports FlashInfer's.

        Raises:
            UnsupportedModel: FlashInfer is not installed, or cannot compute a shape.
        """
        self._shapes = tuple(shapes)
        require(config.kernel, self._shapes, config.dtype)
        self._config = config
        self._record_event = record_event
        self._make_wrapper = make_wrapper or import_wrapper()
        self._workspace = Workspace(kernel=config.kernel, num_sms=config.num_sms)
        self._floats = _bytes(self._float_bytes(), config.device)
        self._eager = [
            FlashInferAttention(
                {shape: self._wrapper() for shape in self._shapes}, config.dtype, config.device, record_event
            )
            for _ in range(config.depth)
        ]
        self._turn = 0

    @property
    def num_bytes(self) -> int:
        """See the class."""
        return self._floats.numel()

    def plan(self, batch: RaggedBatch) -> FlashInferAttention:
        """See `AttentionBackend.plan`; it waits only while as many plans as there are have not reached the device."""
        attention = self._eager[self._turn]
        self._turn = (self._turn + 1) % len(self._eager)
        attention.update(batch)
        return attention

    def plan_static(self, static: RaggedBatch) -> StaticFlashInferAttention:
        """See `CapturableBackend.plan_static`.

        The first plan fixes the rows of the graph for good, so `static.host_cu_seqlens` has to hold a batch of all of
        them. Run the plan once before the capture: FlashInfer allocates at a first run what later ones share.

        Raises:
            RuntimeError: Partial results of such a graph may need more than the workspace has.
        """
        num_tokens, num_sequences = int(static.host_cu_seqlens[-1]), static.num_sequences
        need = max(self._workspace.graph_float_bytes(shape, num_tokens, num_sequences) for shape in self._shapes)
        if need > self.num_bytes:
            message = (
                f"{self._config.kernel} may need {need} bytes for {num_tokens} tokens in {num_sequences} sequences and "
                f"its workspace has {self.num_bytes}: such batches run without a graph; fa3 and fa4 need none"
            )
            raise RuntimeError(message)
        ints = {shape: self._workspace.graph_int_bytes(shape, num_tokens, num_sequences) for shape in self._shapes}
        attention = StaticFlashInferAttention(
            {shape: self._static_wrapper(static.cu_seqlens, num_bytes) for shape, num_bytes in ints.items()},
            self._config.dtype,
            self._config.device,
            self._record_event,
            (num_tokens, num_sequences),
        )
        attention.update(static)
        return attention

    def _wrapper(self) -> Any:
        return self._make_wrapper(self._floats, "NHD", backend=self._config.kernel)

    def _static_wrapper(self, cu_seqlens: torch.Tensor, int_bytes: int) -> Any:
        # Queries and keys are the same rows, so one tensor serves for both, and it is the graph's own.
        wrapper = self._make_wrapper(
            self._floats,
            "NHD",
            use_cuda_graph=True,
            qo_indptr_buf=cu_seqlens,
            kv_indptr_buf=cu_seqlens,
            backend=self._config.kernel,
        )
        # Every wrapper begins with 8 MiB for its list of work, on the device and in page-locked memory, which is about
        # a hundred times what a graph needs, and there may be hundreds of graphs.
        wrapper.reset_workspace_buffer(self._floats, _bytes(int_bytes, self._config.device))
        return wrapper

    def _float_bytes(self) -> int:
        """As much as any batch needs outside graphs, and any graph within the cap."""
        config, workspace = self._config, self._workspace
        eager = max(workspace.eager_float_bytes(shape) for shape in self._shapes)
        if config.max_graph_tokens == 0:
            return eager
        # A sequence has at least one token.
        largest = config.max_graph_tokens, config.max_graph_tokens
        graphs = max(workspace.graph_float_bytes(shape, *largest) for shape in self._shapes)
        return max(eager, min(graphs, config.max_workspace_bytes))


def import_wrapper() -> MakeWrapper:
    """Import FlashInfer's wrapper; takes seconds, so only what is to run does.

    Raises:
        UnsupportedModel: It cannot be imported.
    """
    try:
        wrapper: MakeWrapper = import_module("flashinfer").BatchPrefillWithRaggedKVCacheWrapper
    except ImportError as error:
        message = f"attention needs FlashInfer, which cannot be imported ({error}): pip install 'headrace[cuda]'"
        raise UnsupportedModel(message) from error
    return wrapper


def _bytes(num_bytes: int, device: torch.device) -> torch.Tensor:
    return torch.empty(num_bytes, dtype=torch.uint8, device=device)
