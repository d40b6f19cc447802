"""FlashAttention 4, whose kernels are compiled at their first call and need no plan.

It knows flash_attn/cute/interface.py. It does not know when another backend is faster.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.rules import require
from headrace_engine.attention.unplanned import UnplannedAttention
from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.errors import UnsupportedModel

# A kernel is compiled anew for a batch of no sequence longer than a tile, and for one of more than 256 sequences.
_MAX_SEQLENS = (1, 1024)
_SEQUENCES = (2, 257)


class Flash4Backend:
    """Calls flash_attn_varlen_func with a batch's own cu_seqlens.

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
            attend: In the place of flash_attn_varlen_func, which None imports.

        Raises:
            UnsupportedModel: FlashAttention 4 is not installed, or cannot compute a shape.
        """
        self._shapes = tuple(shapes)
        require("fa4", self._shapes, dtype)
        self._dtype = dtype
        self._attend = attend or import_attend()

    def warm(self, device: torch.device) -> None:
        """Compile every kernel that batches of the model will need, which takes seconds each and cannot be captured.

        Kernels are kept on disk between processes where FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED=1 is set.
        """
        for num_sequences in _SEQUENCES:
            ones = pack([np.zeros(1, np.uint32)] * num_sequences)
            batch = replace(ones, cu_seqlens=ones.cu_seqlens.to(device))
            for max_seqlen in _MAX_SEQLENS:
                attention = self.plan(replace(batch, max_seqlen=max_seqlen))
                for shape in self._shapes:
                    heads = (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
                    rows = torch.zeros(num_sequences, sum(heads), shape.head_dim, dtype=self._dtype, device=device)
                    query, key, value = rows.split(heads, 1)
                    attention.run(query, key, value, shape)

    def plan(self, batch: RaggedBatch) -> UnplannedAttention:
        """See `AttentionBackend.plan`."""
        return UnplannedAttention(self._call, batch)

    def plan_static(self, static: RaggedBatch) -> UnplannedAttention:
        """See `CapturableBackend.plan_static`; `warm` first, or run it once before the capture."""
        return UnplannedAttention(self._call, static)

    def _call(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        batch: RaggedBatch,
    ) -> torch.Tensor:
        # It always gives a pair; the second, the log of the sums, is None unless asked for.
        attended, _ = self._attend(
            query,
            key,
            value,
            cu_seqlens_q=batch.cu_seqlens,
            cu_seqlens_k=batch.cu_seqlens,
            max_seqlen_q=batch.max_seqlen,
            max_seqlen_k=batch.max_seqlen,
            softmax_scale=shape.softmax_scale,
            causal=shape.causal,
            window_size=(shape.window, shape.window),
        )
        rows: torch.Tensor = attended
        return rows


def import_attend() -> Callable[..., Any]:
    """Import flash_attn_varlen_func.

    Raises:
        UnsupportedModel: It cannot be imported.
    """
    try:
        attend: Callable[..., Any] = import_module("flash_attn.cute").flash_attn_varlen_func
    except ImportError as error:
        message = (
            f"attention='fa4' cannot be imported ({error}): pip install flash-attn-4, in the version for your CUDA"
        )
        raise UnsupportedModel(message) from error
    return attend
