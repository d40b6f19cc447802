"""The fixed buffers that a captured graph reads its batch from.

It knows their sizes and that every one is written whole. It does not know graphs, nor how a copy to the device is made:
the caller's `copy` does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.buckets import GraphKey, spread

Copy = Callable[[torch.Tensor, torch.Tensor], object]


@dataclass(frozen=True, slots=True, eq=False)
class StaticBatch:
    """A batch whose tensors stay where they are while their contents change.

    Attributes:
        key: The sizes of its buffers.
        batch: The buffers. Capture and plan with it. Its max_seqlen is the key's, since a launch may have it baked in.
    """

    key: GraphKey
    batch: RaggedBatch

    @classmethod
    def allocate(cls, key: GraphKey, device: torch.device, *, has_segments: bool) -> "StaticBatch":
        """Allocate the buffers, filled with `dummy(key)`, so that a warm-up run and a capture read a sound batch.

        Args:
            key: The sizes.
            device: Where the graph will run; the copy to it waits, so allocate before the capture begins.
            has_segments: Whether the model has more than one segment.
        """
        filled = dummy(key)
        batch = RaggedBatch(
            token_ids=filled.token_ids.to(device),
            positions=filled.positions.to(device),
            cu_seqlens=filled.cu_seqlens.to(device, copy=True),  # on a CPU it would share host_cu_seqlens' memory
            host_cu_seqlens=filled.host_cu_seqlens,
            max_seqlen=key.max_seqlen,
            segment_ids=torch.zeros(key.num_tokens, dtype=torch.int64, device=device) if has_segments else None,
            order=filled.order,
        )
        return cls(key, batch)

    def fill(self, padded: RaggedBatch, copy: Copy) -> None:
        """Write a batch over the former one, every element of every buffer.

        Args:
            padded: On the CPU, of exactly the key's sizes: as `pad` makes it.
            copy: Copies its second argument, on the CPU, over its first, on the device, in order with the replay. It
                must be done reading when it returns.

        Raises:
            ValueError: The batch has other sizes, or it has segments and the buffers do not.
        """
        self._check(padded)
        segment_ids = padded.segment_ids
        copy(self.batch.token_ids, padded.token_ids)
        copy(self.batch.positions, padded.positions)
        copy(self.batch.cu_seqlens, padded.cu_seqlens)
        if self.batch.segment_ids is not None:
            copy(self.batch.segment_ids, torch.zeros_like(padded.token_ids) if segment_ids is None else segment_ids)
        np.copyto(self.batch.host_cu_seqlens, padded.host_cu_seqlens)
        np.copyto(self.batch.order, padded.order)

    def _check(self, padded: RaggedBatch) -> None:
        sizes = padded.num_tokens, padded.num_sequences
        if sizes != (self.key.num_tokens, self.key.num_sequences) or padded.max_seqlen > self.key.max_seqlen:
            message = (
                f"a batch of {sizes[0]} tokens in {sizes[1]} sequences of at most {padded.max_seqlen} is not of the "
                f"sizes of {self.key}: pad it to that key first"
            )
            raise ValueError(message)
        if self.batch.segment_ids is None and padded.segment_ids is not None and padded.segment_ids.any():
            message = "the batch has segments and these buffers have none: allocate them with has_segments=True"
            raise ValueError(message)


def dummy(key: GraphKey) -> RaggedBatch:
    """Make a sound batch of exactly the key's sizes, on the CPU: token 0, in sequences of near equal length."""
    return pack([np.zeros(length, np.uint32) for length in spread(key.num_tokens, key.num_sequences).tolist()])
