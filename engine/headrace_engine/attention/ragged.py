"""Headrace's own kernel for CPUs, which reads cu_seqlens and needs no plan.

It knows how the kernel is called. How it works stands in native/sources/attention.cpp; it does not know when another
backend is faster.
"""

from collections.abc import Iterable

import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.rules import require
from headrace_engine.attention.unplanned import UnplannedAttention
from headrace_engine.batch import RaggedBatch
from headrace_engine.errors import UnsupportedModel
from headrace_engine.native.calls import kernels
from headrace_engine.native.library import Missing


class RaggedAttention(UnplannedAttention):
    """Attention by our own kernel, which a layer that is all our own may call itself."""

    @property
    def cu_seqlens(self) -> torch.Tensor:
        """Of the batch."""
        return self._batch.cu_seqlens


class RaggedBackend:
    """Calls the kernel with a batch's own cu_seqlens."""

    def __init__(self, shapes: Iterable[AttentionShape], dtype: torch.dtype) -> None:
        """Check that it can run the model.

        Args:
            shapes: Those of the model's layers.
            dtype: Of query, key and value.

        Raises:
            UnsupportedModel: There are none, or they cannot compute a shape.
        """
        require("ragged", shapes, dtype)
        found = kernels()
        if isinstance(found, Missing):
            message = f"attention='ragged': {found.reason}"
            raise UnsupportedModel(message)
        self._kernels = found

    def plan(self, batch: RaggedBatch) -> "RaggedAttention":
        """See `AttentionBackend.plan`."""
        return RaggedAttention(self._call, batch)

    def _call(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        batch: RaggedBatch,
    ) -> torch.Tensor:
        return self._kernels.attend(
            query,
            key,
            value,
            batch.cu_seqlens,
            scale=shape.softmax_scale,
            causal=shape.causal,
            window=shape.window,
        )
