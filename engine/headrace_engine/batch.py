"""A ragged batch: sequences of token ids laid end to end, without padding.

It knows lengths and order. It knows nothing of the model that will read the ids, nor of the texts they came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from headrace_engine.errors import BatchError


@dataclass(frozen=True, slots=True, eq=False)
class RaggedBatch:
    """N sequences of T tokens in all, packed shortest first. Its tensors are on one device, the CPU as `pack` makes it.

    Attributes:
        token_ids: [T] int64.
        positions: [T] int64, counting from 0 in each sequence.
        cu_seqlens: [N+1] int32; sequence i owns the tokens cu_seqlens[i] to cu_seqlens[i+1].
        host_cu_seqlens: [N+1] int32, the same in host memory, so that whoever plans never waits for a device.
        max_seqlen: The tokens of the longest sequence.
        segment_ids: [T] int64, the segment (token type) of each token; None where all are in segment 0.
        skips: [N] int32, the leading tokens of each sequence that take no part in the pooling, fewer than it has; None
            where all do.
        order: [N] int64; packed sequence i is the caller's sequence order[i].
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    cu_seqlens: torch.Tensor
    host_cu_seqlens: npt.NDArray[np.int32]
    max_seqlen: int
    segment_ids: torch.Tensor | None
    skips: torch.Tensor | None
    order: npt.NDArray[np.int64]

    @property
    def num_tokens(self) -> int:
        """T, the tokens of all sequences."""
        return self.token_ids.numel()

    @property
    def num_sequences(self) -> int:
        """N, the sequences."""
        return len(self.host_cu_seqlens) - 1

    def parts(self, max_tokens: int) -> "list[RaggedBatch]":
        """Cut into batches of whole sequences, of much the same size: views, in order.

        Args:
            max_tokens: About how many tokens a part has at most; one sequence more, where that is how they fall.
        """
        num_parts = -(-self.num_tokens // max_tokens)
        if num_parts == 1:
            return [self]
        even = np.linspace(0, self.num_tokens, num_parts + 1)
        bounds = np.unique(np.searchsorted(self.host_cu_seqlens, even)).tolist()
        return [self._part(first, last) for first, last in pairwise(bounds)]

    def _part(self, first: int, last: int) -> "RaggedBatch":
        start, stop = self.host_cu_seqlens[[first, last]].tolist()
        cu_seqlens = self.host_cu_seqlens[first : last + 1] - np.int32(start)
        return RaggedBatch(
            token_ids=self.token_ids[start:stop],
            positions=self.positions[start:stop],
            cu_seqlens=torch.from_numpy(cu_seqlens),
            host_cu_seqlens=cu_seqlens,
            max_seqlen=int(np.diff(cu_seqlens).max()),
            segment_ids=None if self.segment_ids is None else self.segment_ids[start:stop],
            skips=None if self.skips is None else self.skips[first:last],
            order=self.order[first:last],
        )


def pack(
    sequences: Sequence[npt.NDArray[np.uint32]],
    segment_ids: Sequence[npt.NDArray[np.unsignedinteger]] | None = None,
    skips: Sequence[int] | None = None,
) -> RaggedBatch:
    """Pack sequences into one batch, shortest first, equal lengths in the caller's order.

    So neighbours of equal length can be computed in one call, and the longest, which come last, be begun first. The ids
    are copied: the batch keeps no reference to the sequences.

    Args:
        sequences: Token ids, each 1-D uint32 and not empty; views into a received message are fine.
        segment_ids: For pairs, the segment of each token, each as long as its sequence, of any unsigned type.
        skips: For models that leave prompts out of the pooling, how many tokens of each sequence are the prompt's; the
            others must be at least one. None leaves none out.

    Returns:
        The batch, on the CPU.

    Raises:
        BatchError: There are no sequences, one is empty or not 1-D unsigned integers, or segment ids or skips
            do not fit.
    """
    if not sequences:
        message = "the batch has no sequences: pack at least one"
        raise BatchError(message)
    lengths = _lengths("sequences", sequences)
    if not lengths.all():
        message = f"sequences[{int(np.argmin(lengths))}] is empty: a sequence has at least one token; leave it out"
        raise BatchError(message)
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    cu_seqlens = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(ordered, out=cu_seqlens[1:])
    positions = np.arange(cu_seqlens[-1], dtype=np.int64)
    if len(lengths) > 1:
        positions -= np.repeat(cu_seqlens[:-1], ordered)
    return RaggedBatch(
        token_ids=_concatenate(sequences, order),
        positions=torch.from_numpy(positions),
        cu_seqlens=torch.from_numpy(cu_seqlens),
        host_cu_seqlens=cu_seqlens,
        max_seqlen=int(ordered[-1]),
        segment_ids=None if segment_ids is None else _segments(segment_ids, lengths, order),
        skips=None if skips is None else _skips(skips, lengths, order),
        order=order,
    )


def _lengths(name: str, arrays: Sequence[npt.NDArray[np.unsignedinteger]]) -> npt.NDArray[np.int64]:
    for index, array in enumerate(arrays):
        if array.ndim != 1 or array.dtype.kind != "u":
            message = f"{name}[{index}] is {array.ndim}-D {array.dtype}: give 1-D arrays of unsigned integers"
            raise BatchError(message)
    return np.fromiter((array.size for array in arrays), np.int64, len(arrays))


def _segments(
    segment_ids: Sequence[npt.NDArray[np.unsignedinteger]],
    lengths: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
) -> torch.Tensor:
    found = _lengths("segment_ids", segment_ids)
    if len(found) != len(lengths):
        message = f"segment_ids has {len(found)} arrays for {len(lengths)} sequences: give one for each"
        raise BatchError(message)
    if (found != lengths).any():
        index = int(np.argmax(found != lengths))
        message = f"segment_ids[{index}] has {found[index]} ids for {lengths[index]} tokens: give one for each token"
        raise BatchError(message)
    return _concatenate(segment_ids, order)


def _skips(skips: Sequence[int], lengths: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> torch.Tensor:
    if len(skips) != len(lengths):
        message = f"skips has {len(skips)} numbers for {len(lengths)} sequences: give one for each"
        raise BatchError(message)
    found = np.array(skips, np.int64)
    unfit = (found < 0) | (found >= lengths)
    if unfit.any():
        index = int(np.argmax(unfit))
        message = (
            f"skips[{index}]={found[index]} of {lengths[index]} tokens: give 0 or more, and leave one token to pool"
        )
        raise BatchError(message)
    return torch.from_numpy(found[order].astype(np.int32))


def _concatenate(arrays: Sequence[npt.NDArray[np.unsignedinteger]], order: npt.NDArray[np.int64]) -> torch.Tensor:
    # int64 because torch has no arithmetic for uint32, and a uint32 id above 2^31 must stay recognisably too large.
    ids = np.concatenate([arrays[index] for index in order.tolist()], dtype=np.int64, casting="unsafe")
    return torch.from_numpy(ids)
