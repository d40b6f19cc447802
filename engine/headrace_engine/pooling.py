"""From one row per token to one row per sequence.

It knows cu_seqlens and arithmetic. It does not know which checkpoint asks for which pooling; `pooling_config` does.
"""

from typing import Literal, assert_never

import torch

from headrace_engine.native.calls import kernels_for

Pooling = Literal["cls", "mean", "last_token"]


def pool(
    hidden: torch.Tensor, cu_seqlens: torch.Tensor, pooling: Pooling, skips: torch.Tensor | None = None
) -> torch.Tensor:
    """Pool the tokens of each sequence, as sentence_transformers/sentence_transformer/modules/pooling.py 6.2 does.

    Args:
        hidden: [T, D] of any floating type.
        cu_seqlens: [N+1] int32; no sequence is empty.
        pooling: Which.
        skips: [N] int32, the leading tokens of each sequence that are left out, fewer than it has: "cls" takes the
            first token after them, and "last_token" is the same with and without. None leaves none out.

    Returns:
        [N, D] float32.
    """
    match pooling:
        case "cls":
            return cls_rows(hidden, cu_seqlens, skips)
        case "mean":
            return mean_rows(hidden, cu_seqlens, skips)
        case "last_token":
            return last_token_rows(hidden, cu_seqlens)
        case _:
            assert_never(pooling)


def cls_rows(hidden: torch.Tensor, cu_seqlens: torch.Tensor, skips: torch.Tensor | None = None) -> torch.Tensor:
    """Take the first token of each sequence that is not left out: [T, D] → [N, D] float32."""
    return hidden[_starts(cu_seqlens, skips)].float()


def last_token_rows(hidden: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Take the last token of each sequence: [T, D] → [N, D] float32."""
    return hidden[cu_seqlens[1:] - 1].float()


def mean_rows(hidden: torch.Tensor, cu_seqlens: torch.Tensor, skips: torch.Tensor | None = None) -> torch.Tensor:
    """Average the tokens of each sequence that are not left out, summing in float32: [T, D] → [N, D] float32."""
    own = kernels_for(hidden)
    if own is not None:
        return own.mean(hidden, cu_seqlens, skips)
    lengths = cu_seqlens.diff()
    # Told its size, torch need not read the lengths back from a device to learn it.
    owners = torch.repeat_interleave(lengths, output_size=len(hidden))
    rows = hidden.float()
    if skips is not None:
        # Their rows become zeros where they are: how many there are must not decide a shape.
        starts = _starts(cu_seqlens, skips)
        is_left_out = torch.arange(len(hidden), device=hidden.device) < starts[owners]
        rows = rows.masked_fill(is_left_out[:, None], 0)
        lengths = cu_seqlens[1:] - starts
    # On a CPU rows are added one by one in order, so that a sequence's sum is independent of its neighbours; on a CUDA
    # device in any order, which moves the last bits.
    sums = hidden.new_zeros(len(lengths), hidden.shape[1], dtype=torch.float32).index_add_(0, owners, rows)
    return sums / lengths[:, None]


def _starts(cu_seqlens: torch.Tensor, skips: torch.Tensor | None) -> torch.Tensor:
    """[N] int32, where the first token of each sequence that is not left out stands."""
    return cu_seqlens[:-1] if skips is None else cu_seqlens[:-1] + skips
