"""Plans of the backends that need none: their kernels read cu_seqlens from the device.

It knows what such a launch fixes: the tensor that holds cu_seqlens, and max_seqlen. It does not know the kernel.
"""

from collections.abc import Callable

import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.batch import RaggedBatch

Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, AttentionShape, RaggedBatch], torch.Tensor]


class UnplannedAttention:
    """A batch, and the call that each layer makes for it; also the plan of a graph."""

    def __init__(self, call: Call, batch: RaggedBatch) -> None:
        """Hold a batch on the device.

        Args:
            call: Takes query, key, value, a shape and the batch.
            batch: For a graph, its fixed buffers, with the largest max_seqlen that it is to replay.
        """
        self._call = call
        self._batch = batch

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        bias: torch.Tensor | None = None,  # noqa: ARG002 - no shape here has one
    ) -> torch.Tensor:
        """See `Attention.run`."""
        return self._call(query, key, value, shape, self._batch)

    def update(self, padded: RaggedBatch) -> None:
        """See `StaticAttention.update`: the next replay reads the buffers, and there is nothing else to do.

        Raises:
            ValueError: A sequence is longer than the launch covers, and the rest of its tokens would be left out.
        """
        if padded.max_seqlen > self._batch.max_seqlen:
            message = (
                f"a batch with a sequence of {padded.max_seqlen} tokens is not for a graph whose launches cover "
                f"{self._batch.max_seqlen}: replay it in a graph of a key with a longer max_seqlen"
            )
            raise ValueError(message)
