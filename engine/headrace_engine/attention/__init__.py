"""Attention within each sequence of a ragged batch, whatever computes it.

A backend plans once for a batch, from lengths alone, and runs that plan in every layer. This module knows the two
interfaces and no backend.
"""

from typing import Protocol

import torch

from headrace_engine.batch import RaggedBatch


class Attention(Protocol):
    """A plan for one batch."""

    def run(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Let every token attend to all tokens of its own sequence.

        The scores are scaled by 1/√head_dim and the softmax is taken in float32.

        Args:
            query: [T, heads, head_dim], packed as the batch; it need not be contiguous.
            key: The same.
            value: The same.

        Returns:
            [T, heads, head_dim], contiguous, of the same dtype.
        """


class AttentionBackend(Protocol):
    """One way to compute attention."""

    def plan(self, batch: RaggedBatch) -> Attention:
        """Prepare for a batch; the plan must not be used after the next one is made."""
