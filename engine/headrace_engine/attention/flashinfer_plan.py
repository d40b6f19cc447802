"""FlashInfer's plans, and which of their memory may be written when.

It knows the methods of FlashInfer's wrapper. It does not know CUDA: events are handed in.

A plan is a list of work. FlashInfer writes it into page-locked memory, queues its copy to the device, and every run of
the plan reads it there. Two things keep plans apart:

* The page-locked memory belongs to the host. Were it written before the device has made the former plan's copy, the
  former plan would be the one that changes. A copy event, recorded behind the copies, says when it is free. It need not
  say more: nothing that runs reads page-locked memory.
* The memory on the device (list of work, cu_seqlens, partial results) belongs to the CUDA stream. The next plan's copy
  is queued behind the former plan's runs, so it needs no event, as long as plans, runs and replays are all queued on
  one CUDA stream, or on two that wait for each other whenever work goes from one to the other.

FlashInfer: arXiv:2501.01005, flashinfer/prefill.py.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.batch import RaggedBatch
from headrace_engine.staging import Event


class FlashInferAttention:
    """One wrapper for each shape of a model, planned together for one batch after the other."""

    def __init__(
        self,
        wrappers: Mapping[AttentionShape, Any],
        dtype: torch.dtype,
        device: torch.device,
        record_event: Callable[[], Event],
    ) -> None:
        """Hold wrappers that have not been planned yet.

        Args:
            wrappers: By the shape each is for.
            dtype: Of query, key, value and result.
            device: A CUDA device.
            record_event: Records an event behind all that the current CUDA stream has queued.
        """
        self._wrappers = wrappers
        self._dtype = dtype
        self._device = device
        self._record_event = record_event
        self._copied: Event | None = None
        self._indptr: torch.Tensor | None = None

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        bias: torch.Tensor | None = None,  # noqa: ARG002 - no shape here has one
    ) -> torch.Tensor:
        """See `Attention.run`."""
        attended: torch.Tensor = self._wrappers[shape].run(query, key, value)
        return attended

    def update(self, batch: RaggedBatch) -> None:
        """Plan for a batch: wait until the former plan's copies are made, write the new one, queue its copies.

        In a graph it also writes the batch's cu_seqlens over the graph's. Only `host_cu_seqlens` is read of the batch,
        and only before this returns.
        """
        if self._copied is not None:
            self._copied.synchronize()
        # Kept, as the copies read it, and a copy, as the batch may be written over.
        self._indptr = _indptr(batch.host_cu_seqlens, self._device)
        try:
            for shape, wrapper in self._wrappers.items():
                _plan(wrapper, shape, self._indptr, self._dtype)
        finally:
            # Should one of several fail, the copies of those before it are under way all the same.
            self._copied = self._record_event()


class StaticFlashInferAttention(FlashInferAttention):
    """The plan of one captured graph. Drop it only once its last replay has run: the copy before it may still wait."""

    def __init__(
        self,
        wrappers: Mapping[AttentionShape, Any],
        dtype: torch.dtype,
        device: torch.device,
        record_event: Callable[[], Event],
        sizes: tuple[int, int],
    ) -> None:
        """See `FlashInferAttention`; `sizes` are the tokens and the sequences of every batch of the graph."""
        super().__init__(wrappers, dtype, device, record_event)
        self._sizes = sizes

    def update(self, padded: RaggedBatch) -> None:
        """See `StaticAttention.update`.

        Raises:
            ValueError: The batch has other sizes than the graph. FlashInfer takes fewer rows, and leaves the others as
                they are.
        """
        sizes = int(padded.host_cu_seqlens[-1]), padded.num_sequences
        if sizes != self._sizes:
            message = (
                f"a batch of {sizes[0]} tokens in {sizes[1]} sequences is not for a graph of {self._sizes[0]} in "
                f"{self._sizes[1]}: pad it to the graph's key first"
            )
            raise ValueError(message)
        super().update(padded)


def _plan(wrapper: Any, shape: AttentionShape, indptr: torch.Tensor, dtype: torch.dtype) -> None:
    wrapper.plan(
        indptr,
        indptr,
        shape.num_heads,
        shape.num_kv_heads,
        shape.head_dim,
        causal=shape.causal,
        # To the left; `require` let none pass that reaches to the right as well.
        window_left=-1 if shape.window is None else shape.window,
        sm_scale=shape.softmax_scale,
        # float16 by default, and then it refuses to run bfloat16.
        q_data_type=dtype,
        kv_data_type=dtype,
        o_data_type=dtype,
    )


def _indptr(host_cu_seqlens: npt.NDArray[np.int32], device: torch.device) -> torch.Tensor:
    indptr = torch.tensor(host_cu_seqlens)
    return indptr.pin_memory() if device.type == "cuda" else indptr
