"""A batch's tensors side by side in one block of bytes, so that one copy moves them all.

It knows their order. It does not know where a block lies, nor who copies it.
"""

from dataclasses import replace

import torch

from headrace_engine.batch import RaggedBatch


def num_bytes(batch: RaggedBatch) -> int:
    """The size of a batch's block."""
    return sum(tensor.nbytes for tensor in _tensors(batch))


def join(batch: RaggedBatch, block: torch.Tensor) -> torch.Tensor:
    """Write a batch of the host into a block of its size, [num_bytes] uint8, and return that."""
    return torch.cat([tensor.view(torch.uint8) for tensor in _tensors(batch)], out=block)


def split(block: torch.Tensor, batch: RaggedBatch) -> RaggedBatch:
    """The batch with its tensors in a block that holds it, wherever that is: views of the block."""
    tensors = _tensors(batch)
    parts = iter(block.split([tensor.nbytes for tensor in tensors]))
    # As keyword arguments are evaluated from left to right, they take the parts in the order of `_tensors`.
    return replace(
        batch,
        token_ids=next(parts).view(torch.int64),
        positions=next(parts).view(torch.int64),
        segment_ids=None if batch.segment_ids is None else next(parts).view(torch.int64),
        cu_seqlens=next(parts).view(torch.int32),
        skips=None if batch.skips is None else next(parts).view(torch.int32),
    )


def _tensors(batch: RaggedBatch) -> list[torch.Tensor]:
    """Those that there are, the ids of 8 bytes first, so that all are aligned."""
    tensors = (batch.token_ids, batch.positions, batch.segment_ids, batch.cu_seqlens, batch.skips)
    return [tensor for tensor in tensors if tensor is not None]
