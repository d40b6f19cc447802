"""Attention within each sequence of a ragged batch, whatever computes it.

A backend plans once for a batch, from lengths alone, and runs that plan in every layer. This module knows the
interfaces and no backend.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from headrace_engine.batch import RaggedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """What one kind of layer asks of attention; most models have one kind, ModernBERT has two.

    Attributes:
        num_heads: Of queries.
        num_kv_heads: Of keys and values; each serves num_heads / num_kv_heads heads of queries in a row.
        head_dim: The width of a head.
        causal: Whether a token sees only itself and those before it.
        window: The farthest that a token sees, to either side; None is as far as its sequence goes.
        scale: What the scores are multiplied by; None is 1/√head_dim.
        has_position_bias: Whether each layer's scores get a bias by position, as in MPNet.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    causal: bool = False
    window: int | None = None
    scale: float | None = None
    has_position_bias: bool = False

    @property
    def softmax_scale(self) -> float:
        """What the scores are multiplied by."""
        return self.head_dim**-0.5 if self.scale is None else self.scale


class Attention(Protocol):
    """A plan for one batch."""

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Let every token attend to the tokens of its own sequence that `shape` lets it see.

        The softmax is taken in float32.

        Args:
            query: [T, num_heads, head_dim], packed as the batch; it need not be contiguous.
            key: [T, num_kv_heads, head_dim].
            value: The same.
            shape: One of those that the backend was made for.
            bias: Added to the scaled scores, [num_heads, L, L] with L at least max_seqlen, of which a sequence of n
                tokens gets [:, :n, :n]; only where `shape.has_position_bias`.

        Returns:
            [T, num_heads, head_dim], contiguous, of the same dtype.
        """


class AttentionBackend(Protocol):
    """One way to compute attention."""

    def plan(self, batch: RaggedBatch) -> Attention:
        """Prepare for a batch; lengths are read from its `host_cu_seqlens`, so no device is waited for.

        The plan must not be used after the next one is made.
        """


class StaticAttention(Attention, Protocol):
    """The plan of one captured graph, which reads the same buffers at every replay."""

    def update(self, padded: RaggedBatch) -> None:
        """Prepare the next replay, outside the graph, for a batch of the same graph key on the host."""


class CapturableBackend(AttentionBackend, Protocol):
    """A backend whose launches can be captured in a CUDA graph."""

    @property
    def bakes_max_seqlen(self) -> bool:
        """Whether the launch depends on max_seqlen, so that the graph key must hold it."""

    def plan_static(self, static: RaggedBatch) -> StaticAttention:
        """Plan for a graph: its launches read the tensors of `static` at every replay."""
