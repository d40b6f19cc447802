"""torch's scaled_dot_product_attention, called once for each run of sequences of equal length.

`pack` sorts by length, so sequences of equal length are neighbours and a run is a plain [sequences, length] view. It
knows lengths and torch; no padding is computed. It takes every shape, dtype and device there is, and is for what the
other kernels on a device cannot compute. Its launches follow the lengths of a batch, so no graph can be made of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.attention import AttentionShape
from headrace_engine.attention.blocks import Block, blocks_of
from headrace_engine.batch import RaggedBatch

# Where two matrix products beat scaled_dot_product_attention, which works on 16 keys at a time and takes long over a
# tail: a few sequences, of 17 to 63 tokens, not a multiple of 16. Milliseconds (SDPA against products) for 4 sequences
# of 12 heads, torch 2.13, one core with AVX512-BF16:
#
#   length            6          12         20         31         32         47         64         90         128
#   bf16, head 32  .07  .13   .14  .24   .16  .25   .47  .27   .18  .26   .77  .50   .58  .75   1.6  1.4   2.0  2.5
#   bf16, head 64  .08  .15   .17  .28   .21  .25   .61  .40   .27  .38   1.1  .73   .91  1.1   2.3  2.2   3.3  4.1
#   fp32, head 32  .05  .08   .11  .19   .13  .12   .32  .18   .13  .16   .61  .34   .43  .52   1.2  1.0   1.4  2.2
#   fp32, head 64  .09  .13   .13  .22   .24  .18   .38  .31   .20  .30   .69  .57   .69  .87   1.7  1.7   2.2  2.9
#
# At 20 they are level from 16 sequences on, and one sequence alone is for SDPA up to 30. Joining near-equal lengths
# under a mask, at multiples of 16, took 4 % off the bf16 attention of 128 sequences of 5 to 249 tokens, 19 % off 32 of
# 5 to 129, nothing off short ones (measured once, among other work): too little yet for an index, a mask and a copy.
_PRODUCT_LENGTHS = range(17, 64)
_PRODUCT_SEQUENCES = 4
_KEYS_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class _Run:
    start: int  # its first token
    stop: int  # one past its last
    length: int  # tokens of each sequence

    def sequences(self, rows: torch.Tensor) -> torch.Tensor:
        """[T, heads, head_dim] → [sequences, heads, length, head_dim], a view."""
        return rows[self.start : self.stop].view(-1, self.length, *rows.shape[1:]).transpose(1, 2)

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
        if query.device.type == "cpu" and self._suits_products():
            return _products(query, key, value, scale)
        return F.scaled_dot_product_attention(query, key, value, scale=scale)

    def _suits_products(self) -> bool:
        sequences = (self.stop - self.start) // self.length
        tail = self.length % _KEYS_AT_A_TIME
        return tail != 0 and self.length in _PRODUCT_LENGTHS and sequences >= _PRODUCT_SEQUENCES


class SdpaAttention:
    """A plan: the runs of one batch, and what was worked out for each shape and length."""

    __slots__ = ("_blocks", "_runs")

    def __init__(self, runs: list[_Run]) -> None:
        """Hold runs that cover a batch without a gap."""
        self._runs = runs
        self._blocks: dict[tuple[AttentionShape, int], tuple[Block, ...]] = {}

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """See `Attention.run`."""
        attended = []
        for run in self._runs:
            rows = (run.sequences(query), run.sequences(key), run.sequences(value))
            if _is_plain(shape):
                sequences = run.attend(*rows, shape.softmax_scale)
            else:
                sequences = _attend(*rows, shape, self._blocks_of(shape, run.length, query.device), bias)
            attended.append(sequences.transpose(1, 2).flatten(0, 1))
        return torch.cat(attended)

    def _blocks_of(self, shape: AttentionShape, length: int, device: torch.device) -> tuple[Block, ...]:
        if (shape, length) not in self._blocks:
            self._blocks[shape, length] = blocks_of(shape, length, device)
        return self._blocks[shape, length]


class SdpaBackend:
    """Plans by finding where the length changes."""

    def plan(self, batch: RaggedBatch) -> SdpaAttention:
        """See `AttentionBackend.plan`; a batch in any order will do, one sorted by length has the fewest runs."""
        starts = batch.host_cu_seqlens
        lengths = np.diff(starts)
        firsts = np.flatnonzero(np.diff(lengths, prepend=0))
        bounds = [*starts[firsts].tolist(), batch.num_tokens]
        return SdpaAttention(
            [
                _Run(start, stop, length)
                for start, stop, length in zip(bounds[:-1], bounds[1:], lengths[firsts].tolist(), strict=True)
            ]
        )


def _is_plain(shape: AttentionShape) -> bool:
    """Whether every token sees all others, and each head has keys of its own: what the figures above are for."""
    limited = shape.causal or shape.has_position_bias or shape.window is not None
    return not limited and shape.num_heads == shape.num_kv_heads


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    shape: AttentionShape,
    blocks: tuple[Block, ...],
    bias: torch.Tensor | None,
) -> torch.Tensor:
    attended = [
        F.scaled_dot_product_attention(
            query[:, :, block.queries],
            key[:, :, block.keys],
            value[:, :, block.keys],
            attn_mask=block.mask if bias is None else _masked(bias, block).to(query.dtype),
            is_causal=shape.causal and block.mask is None,
            scale=shape.softmax_scale,
            enable_gqa=shape.num_heads != shape.num_kv_heads,
        )
        for block in blocks
    ]
    return attended[0] if len(attended) == 1 else torch.cat(attended, dim=2)


def _masked(bias: torch.Tensor, block: Block) -> torch.Tensor:
    """[1, num_heads, queries, keys]: the bias where one sees the other, and minus infinity elsewhere."""
    cut = bias[None, :, block.queries, block.keys]
    return cut if block.mask is None else cut.masked_fill(~block.mask, -torch.inf)


def _products(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    scores = (query * scale) @ key.transpose(-1, -2)
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype) @ value
