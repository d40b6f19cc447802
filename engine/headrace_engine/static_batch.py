"""The fixed buffers that a captured graph reads its batch from.

It knows their sizes and that every one is written whole. It does not know graphs, nor how a copy to the device is made:
the caller's `copy` does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.block import join, num_bytes, split
from headrace_engine.buckets import GraphKey, spread

Copy = Callable[[torch.Tensor, torch.Tensor], object]


@dataclass(frozen=True, slots=True, eq=False)
class StaticBatch:
    """A batch whose tensors stay where they are while their contents change.

    Attributes:
        key: The sizes of its buffers.
        batch: The buffers. Capture and plan with it. Its max_seqlen is the key's, since a launch may have it baked in.
        block: [num_bytes] uint8, all buffers of the device side by side.
    """

    key: GraphKey
    batch: RaggedBatch
    block: torch.Tensor

    @classmethod
    def allocate(
        cls, key: GraphKey, device: torch.device, *, has_segments: bool, has_skips: bool = False
    ) -> "StaticBatch":
        """Allocate the buffers, filled with `dummy(key)`, so that a warm-up run and a capture read a sound batch.

        Args:
            key: The sizes.
            device: Where the graph will run; the copy to it waits, so allocate before the capture begins.
            has_segments: Whether the model has more than one segment.
            has_skips: Whether the model leaves prompts out of the pooling.
        """
        filled = dummy(key)
        if has_segments:
            filled = replace(filled, segment_ids=torch.zeros_like(filled.token_ids))
        if has_skips:
            filled = replace(filled, skips=torch.zeros_like(filled.cu_seqlens[1:]))
        block = _joined(filled).to(device)
        return cls(key, replace(split(block, filled), max_seqlen=key.max_seqlen), block)

    def fill(self, padded: RaggedBatch, copy: Copy) -> None:
        """Write a batch over the former one, every element of every buffer.

        Args:
            padded: On the CPU, of exactly the key's sizes: as `pad` makes it.
            copy: Copies its second argument, on the CPU, over its first, on the device, in order with the replay. It
                must be done reading when it returns.

        Raises:
            ValueError: The batch has other sizes, or it has segments or skips and the buffers do not.
        """
        self._check(padded)
        copy(self.block, _joined(self._completed(padded)))
        np.copyto(self.batch.host_cu_seqlens, padded.host_cu_seqlens)
        np.copyto(self.batch.order, padded.order)

    def _completed(self, padded: RaggedBatch) -> RaggedBatch:
        """The batch with just those tensors that there are buffers for."""
        segment_ids, skips = self.batch.segment_ids, self.batch.skips
        return replace(
            padded,
            segment_ids=None if segment_ids is None else _or_zeros(padded.segment_ids, padded.token_ids),
            skips=None if skips is None else _or_zeros(padded.skips, padded.cu_seqlens[1:]),
        )

    def _check(self, padded: RaggedBatch) -> None:
        sizes = padded.num_tokens, padded.num_sequences
        if sizes != (self.key.num_tokens, self.key.num_sequences) or padded.max_seqlen > self.key.max_seqlen:
            message = (
                f"a batch of {sizes[0]} tokens in {sizes[1]} sequences of at most {padded.max_seqlen} is not of the "
                f"sizes of {self.key}: pad it to that key first"
            )
            raise ValueError(message)
        if self.batch.segment_ids is None and _has_any(padded.segment_ids):
            message = "the batch has segments and these buffers have none: allocate them with has_segments=True"
            raise ValueError(message)
        if self.batch.skips is None and _has_any(padded.skips):
            message = "the batch has skips and these buffers have none: allocate them with has_skips=True"
            raise ValueError(message)


def _joined(batch: RaggedBatch) -> torch.Tensor:
    return join(batch, torch.empty(num_bytes(batch), dtype=torch.uint8))


def _has_any(values: torch.Tensor | None) -> bool:
    return values is not None and bool(values.any())


def _or_zeros(values: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if values is None else values


def dummy(key: GraphKey) -> RaggedBatch:
    """Make a sound batch of exactly the key's sizes, on the CPU: token 0, in sequences of near equal length."""
    return pack([np.zeros(length, np.uint32) for length in spread(key.num_tokens, key.num_sequences).tolist()])
