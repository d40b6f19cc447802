"""Which keys a sequence's queries have to be compared with: all at once, or block by block along a window.

Pure arithmetic on lengths. It knows what a token may see. It does not know what computes the scores.
"""

from dataclasses import dataclass, replace

import torch

from headrace_engine.attention import AttentionShape

# Along a window of w, a block of rows is compared with its own and w keys to each side, instead of with all keys.
# Milliseconds for 12 heads of 64, window 64, torch 2.13, one core (all keys under a mask, against blocks of 64):
#
#   sequences × length    4 × 100       2 × 200       1 × 512       1 × 2048
#   fp32                  1.9  2.2      3.1  3.1      8.5  4.6      132   19
#   bf16                  2.8  2.9      4.9  3.8      14   5.5      220   26
#
# Blocks of 32 and of 128 were level with 64 at 512 and 2048, within a third.
_Sizes = tuple[int, int, int]  # queries, keys, and the key that query 0 stands at
_ROWS = 64
_WINDOWS = 3  # up to so many windows of length, one block is as fast


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of every sequence of one length.

    Attributes:
        queries: The rows that look.
        keys: The rows that any of them sees.
        mask: [queries, keys] bool, whether one sees the other; None where all do, or all those before it if causal.
    """

    queries: slice
    keys: slice
    mask: torch.Tensor | None


def blocks_of(shape: AttentionShape, length: int, device: torch.device) -> tuple[Block, ...]:
    """Cut a sequence into blocks that together hold every pair of tokens that see each other.

    Args:
        shape: What a token may see.
        length: The tokens of the sequence.
        device: Where the masks are to be.

    Returns:
        Blocks in order, whose queries cover the sequence.
    """
    if shape.window is not None and length <= shape.window + 1:
        shape = replace(shape, window=None)
    if shape.window is None:
        # With a bias there is a mask of numbers anyway, and the kernel takes either that or its own causal one.
        mask = _seen(shape, (length, length, 0), device) if shape.causal and shape.has_position_bias else None
        return (Block(slice(0, length), slice(0, length), mask),)
    rows = length if length <= _WINDOWS * shape.window else _ROWS
    masks: dict[_Sizes, torch.Tensor] = {}
    spans = [(start, min(start + rows, length)) for start in range(0, length, rows)]
    for sizes in {_sizes(shape, *span, length) for span in spans}:  # all but the first and last few have the same
        masks[sizes] = _seen(shape, sizes, device)
    return tuple(_along(shape, *span, length, masks) for span in spans)


def _along(shape: AttentionShape, start: int, stop: int, length: int, masks: dict[_Sizes, torch.Tensor]) -> Block:
    sizes = _sizes(shape, start, stop, length)
    first = start - sizes[2]
    return Block(slice(start, stop), slice(first, first + sizes[1]), masks[sizes])


def _sizes(shape: AttentionShape, start: int, stop: int, length: int) -> _Sizes:
    window = shape.window or 0
    first = max(0, start - window)
    last = stop if shape.causal else min(length, stop + window)
    return stop - start, last - first, start - first


def _seen(shape: AttentionShape, sizes: _Sizes, device: torch.device) -> torch.Tensor:
    """[queries, keys] bool, whether one sees the other."""
    num_queries, num_keys, offset = sizes
    keys = torch.arange(num_keys, device=device)
    ahead = keys - torch.arange(offset, offset + num_queries, device=device)[:, None]
    seen = torch.ones_like(ahead, dtype=torch.bool) if shape.window is None else ahead.abs() <= shape.window
    return seen & (ahead <= 0) if shape.causal else seen
