"""torch's own variable-length attention: nothing to install and nothing to plan.

It knows torch.nn.attention.varlen, whose kernels are those of FlashAttention 2. It does not know when another backend
is faster.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.rules import require
from headrace_engine.attention.unplanned import UnplannedAttention
from headrace_engine.batch import RaggedBatch
from headrace_engine.errors import UnsupportedModel


class VarlenBackend:
    """Calls varlen_attn with a batch's own cu_seqlens.

    Attributes:
        bakes_max_seqlen: True: the launch covers max_seqlen tokens of every sequence.
    """

    bakes_max_seqlen = True

    def __init__(
        self, shapes: Iterable[AttentionShape], dtype: torch.dtype, attend: Callable[..., Any] | None = None
    ) -> None:
        """Check that it can run the model.

        Args:
            shapes: Those of the model's layers.
            dtype: Of query, key and value.
            attend: In the place of torch's varlen_attn, which None imports.

        Raises:
            UnsupportedModel: torch is too old, or its kernels cannot compute a shape.
        """
        require("varlen", shapes, dtype)
        self._attend = attend or import_attend()

    def plan(self, batch: RaggedBatch) -> UnplannedAttention:
        """See `AttentionBackend.plan`."""
        return UnplannedAttention(self._call, batch)

    def plan_static(self, static: RaggedBatch) -> UnplannedAttention:
        """See `CapturableBackend.plan_static`."""
        return UnplannedAttention(self._call, static)

    def _call(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        batch: RaggedBatch,
    ) -> torch.Tensor:
        attended: torch.Tensor = self._attend(
            query,
            key,
            value,
            batch.cu_seqlens,
            batch.cu_seqlens,
            batch.max_seqlen,
            batch.max_seqlen,
            scale=shape.softmax_scale,
            window_size=_window(shape),
            enable_gqa=shape.num_heads != shape.num_kv_heads,
            # Left to itself it splits long keys by the longest sequence of the batch, and so a text's row would depend
            # on its neighbours.
            num_splits=1,
        )
        return attended


def import_attend() -> Callable[..., Any]:
    """Import varlen_attn.

    Raises:
        UnsupportedModel: This torch has none.
    """
    try:
        # Deferred: older versions of torch, which run models on a CPU well enough, have no such module.
        from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415
    except ImportError as error:
        message = f"torch {torch.__version__} has no varlen_attn: install torch 2.12 or newer"
        raise UnsupportedModel(message) from error
    return varlen_attn


def _window(shape: AttentionShape) -> tuple[int, int]:
    """How far a token sees to its left and right; -1 is as far as its sequence goes."""
    reach = -1 if shape.window is None else shape.window
    return reach, 0 if shape.causal else reach
