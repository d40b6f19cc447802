"""A stand-in for the backend "varlen" where torch is too old to have varlen_attn as the engine needs it.

It knows the operator below varlen_attn, which older versions have too. It serves to check graphs, copies and memory on
a machine with nothing else to install; the engine itself does not use it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from headrace_engine.attention import AttentionBackend
from headrace_engine.attention.varlen import VarlenBackend
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.graph import CudaEager
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.model import Model
from headrace_engine.runner import Runner

from gpu.backend import Graphing, assemble
from gpu.model import Built

NAME = "varlen*"


@dataclass(frozen=True, slots=True)
class OlderTorchBackend:
    """See `Backend`."""

    name: str
    device: torch.device
    dtype: torch.dtype

    def attention(self, model: Model) -> AttentionBackend:
        """See `Backend.attention`."""
        return self._varlen(model)

    def eager(self, built: Built) -> Runner:
        """See `Backend.eager`."""
        copies = Copies(self.device)
        return CudaRunner(CudaEager(built.model, self._varlen(built.model), copies), None, copies)

    def graphing(self, built: Built, config: EngineConfig) -> Graphing | None:
        """See `Backend.graphing`."""
        return assemble(built.model, self._varlen(built.model), built.limits, config, self.device)

    def _varlen(self, model: Model) -> VarlenBackend:
        return VarlenBackend(model.shapes, self.dtype, attend)


def attend(  # noqa: PLR0913 - those of varlen_attn
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    **newer: Any,  # noqa: ARG001 - enable_gqa and num_splits, which the operator knows how to do without
) -> torch.Tensor:
    """What varlen_attn of torch 2.12 does with the same arguments."""
    left, right = window_size
    attended: torch.Tensor = torch.ops.aten._flash_attention_forward(  # noqa: SLF001 - it has no public name
        query,
        key,
        value,
        cu_seq_q,
        cu_seq_k,
        max_q,
        max_k,
        0.0,  # dropout
        (left, right) == (-1, 0),
        False,  # return_debug_mask
        scale=scale,
        window_size_left=left,
        window_size_right=right,
    )[0]
    return attended
