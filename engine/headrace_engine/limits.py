"""What a batch must keep to so that a model can run it.

It knows numbers, not models. It looks only at batches on the CPU, before anything is copied to a device.
"""

from dataclasses import dataclass

import numpy as np
import torch

from headrace_engine.batch import RaggedBatch
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.errors import BatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one model.

    Attributes:
        max_length: The most tokens of a sequence.
        max_length_source: The file and field that say so.
        vocab_size: Token ids are below it.
        num_segments: Segment ids are below it.
        include_prompt: Whether the tokens of a prompt take part in the pooling, so that none may be left out.
    """

    max_length: int
    max_length_source: str
    vocab_size: int
    num_segments: int
    include_prompt: bool = True

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Limits":
        """The bounds of a checkpoint."""
        return cls(
            max_length=checkpoint.max_length,
            max_length_source=checkpoint.max_length_source,
            vocab_size=checkpoint.vocab_size,
            num_segments=checkpoint.num_segments,
            include_prompt=checkpoint.include_prompt,
        )

    def check(self, batch: RaggedBatch) -> None:
        """Refuse a batch that goes beyond the limits.

        Raises:
            BatchError: Names the caller's sequence, the value found and the limit.
        """
        if batch.max_seqlen > self.max_length:
            message = (
                f"sequence {batch.order[-1]} has {batch.max_seqlen} tokens and this model takes {self.max_length} "
                f"({self.max_length_source}): truncate or split it before packing"
            )
            raise BatchError(message)
        _check_ids("token id", batch.token_ids, self.vocab_size, batch)
        if batch.segment_ids is not None:
            _check_ids("segment id", batch.segment_ids, self.num_segments, batch)
        if self.include_prompt and batch.skips is not None and batch.skips.any():
            packed = int(batch.skips.argmax())
            message = (
                f"sequence {batch.order[packed]} leaves {int(batch.skips[packed])} tokens out of the pooling and this "
                "model pools those of a prompt too: pack it without skips"
            )
            raise BatchError(message)


def _check_ids(name: str, ids: torch.Tensor, bound: int, batch: RaggedBatch) -> None:
    low, high = torch.aminmax(ids)
    if low >= 0 and high < bound:
        return
    token = int(((ids < 0) | (ids >= bound)).nonzero()[0])
    packed = int(np.searchsorted(batch.host_cu_seqlens, token, side="right")) - 1
    message = (
        f"sequence {batch.order[packed]} holds {name} {int(ids[token])}, outside 0 to {bound - 1}: "
        "tokenise it with this model's own tokenizer.json"
    )
    raise BatchError(message)
