"""From one row per token to one row per sequence.

It knows cu_seqlens and arithmetic. It does not know which checkpoint asks for which pooling; `pooling_config` does.
"""

from typing import Literal, assert_never

import torch

Pooling = Literal["cls", "mean", "last_token"]


def pool(hidden: torch.Tensor, cu_seqlens: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool the tokens of each sequence.

    Args:
        hidden: [T, D] of any floating type.
        cu_seqlens: [N+1] int32; no sequence is empty.
        pooling: Which.

    Returns:
        [N, D] float32.
    """
    match pooling:
        case "cls":
            return cls_rows(hidden, cu_seqlens)
        case "mean":
            return mean_rows(hidden, cu_seqlens)
        case "last_token":
            return last_token_rows(hidden, cu_seqlens)
        case _:
            assert_never(pooling)


def cls_rows(hidden: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Take the first token of each sequence: [T, D] → [N, D] float32."""
    return hidden[cu_seqlens[:-1]].float()


def last_token_rows(hidden: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Take the last token of each sequence: [T, D] → [N, D] float32."""
    return hidden[cu_seqlens[1:] - 1].float()


def mean_rows(hidden: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Average the tokens of each sequence, summing in float32: [T, D] → [N, D] float32."""
    lengths = cu_seqlens.diff()
    # Told its size, torch need not read the lengths back from a device to learn it.
    owners = torch.repeat_interleave(lengths, output_size=len(hidden))
    # Adding rows one by one in order makes a sequence's sum independent of its neighbours. It is also the fastest: for
    # 128 sequences of 16,000 tokens in all, 384 wide, 1.6 ms against 2.5 for a loop of sums and 9.7 for segment_reduce.
    sums = hidden.new_zeros(len(lengths), hidden.shape[1], dtype=torch.float32).index_add_(0, owners, hidden.float())
    return sums / lengths[:, None]
