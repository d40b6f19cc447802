"""Buckets: the few shapes that batches are padded to, so that one captured graph fits many batches.

Pure arithmetic on lengths, on the host. It knows what a shape is and how to pad a batch to one. It does not know when a
graph is worth its capture, nor what runs it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.batch import RaggedBatch


@dataclass(frozen=True, slots=True, order=True)
class GraphKey:
    """The shape a graph is captured for.

    Attributes:
        num_tokens: The tokens of every batch it replays, padding among them.
        num_sequences: Their sequences, dummies among them.
        max_seqlen: No sequence of theirs is longer; the model's max length where the attention backend does not care.
    """

    num_tokens: int
    num_sequences: int
    max_seqlen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Which shapes there are.

    Tokens go up to a multiple of a step, and the padding is made of dummy sequences, which bring the sequences to a
    power of two. A batch whose tokens are a multiple already gets no dummies: its own number of sequences is in the
    key. So 5 × 512 tokens cost 5 × 512, and batches of one length make no more keys than their token counts do anyway.

    The padding is less than one step plus one token for each dummy. There are no more dummies than real sequences, but
    where max_length, or the bucket of max_seqlen, is shorter than the step, at most 2 × step / (it - 1) more.

    Attributes:
        max_tokens: Above it graphs do not pay, and a batch has no key. 0 gives no batch a key.
        max_length: The most tokens of a sequence of this model.
        buckets_max_seqlen: Whether the attention backend bakes max_seqlen into its launches; if so, it goes up to a
            power of two, but not above max_length.
        fine_step: The step in tokens up to `fine_tokens`.
        coarse_step: The step in tokens above.
        fine_tokens: A multiple of both steps.
        min_seqlen: The smallest bucket of max_seqlen.

    Raises:
        ValueError: A field makes no sense.
    """

    max_tokens: int
    max_length: int
    buckets_max_seqlen: bool
    fine_step: int = 64
    coarse_step: int = 256
    fine_tokens: int = 1024
    min_seqlen: int = 64

    def __post_init__(self) -> None:
        # At 2 and above, `fit` ends: step dummies of 1 to 2 tokens make any padding between step and 2·step.
        for name, least in (("max_tokens", 0), ("max_length", 2), ("min_seqlen", 2), ("fine_step", 1)):
            if getattr(self, name) < least:
                message = f"{name}={getattr(self, name)} is too small: set at least {least}"
                raise ValueError(message)
        if self.coarse_step < self.fine_step:
            message = f"coarse_step={self.coarse_step} is below fine_step={self.fine_step}: set it higher"
            raise ValueError(message)
        if self.fine_tokens % self.fine_step or self.fine_tokens % self.coarse_step:
            message = (
                f"fine_tokens={self.fine_tokens} is no multiple of fine_step={self.fine_step} and of "
                f"coarse_step={self.coarse_step}: set it to one of both"
            )
            raise ValueError(message)

    def key(self, batch: RaggedBatch) -> GraphKey | None:
        """Say which graph can run a batch: see `fit`."""
        return self.fit(batch.num_tokens, batch.num_sequences, batch.max_seqlen)

    def fit(self, num_tokens: int, num_sequences: int, max_seqlen: int) -> GraphKey | None:
        """Find the shape that batches of these sizes are padded to.

        Returns:
            The key, or None where it would have more than `max_tokens` tokens.

        Raises:
            ValueError: No batch within the model's limits has these sizes.
        """
        if not 1 <= num_sequences <= num_tokens <= num_sequences * max_seqlen or max_seqlen > self.max_length:
            message = (
                f"num_tokens={num_tokens}, num_sequences={num_sequences}, max_seqlen={max_seqlen} are the sizes of no "
                f"batch with max_length={self.max_length}: check the batch against the model's limits first"
            )
            raise ValueError(message)
        longest = self._seqlen(max_seqlen)
        tokens, sequences = self._tokens(num_tokens), num_sequences
        while not _can_pad(tokens - num_tokens, sequences - num_sequences, longest):
            sequences = 1 << sequences.bit_length()  # the next power of two
            tokens = self._tokens(num_tokens + sequences - num_sequences)
        return GraphKey(tokens, sequences, longest) if tokens <= self.max_tokens else None

    def _tokens(self, num_tokens: int) -> int:
        step = self.fine_step if num_tokens <= self.fine_tokens else self.coarse_step
        return -(-num_tokens // step) * step

    def _seqlen(self, max_seqlen: int) -> int:
        if not self.buckets_max_seqlen:
            return self.max_length
        return min(self.max_length, max(self.min_seqlen, 1 << (max_seqlen - 1).bit_length()))


def pad(batch: RaggedBatch, key: GraphKey) -> RaggedBatch:
    """Pad a batch to the sizes of its key with dummy sequences, of near equal length, after the real ones.

    Every row belongs to a sequence and no sequence is empty, so that kernels see nothing unusual: rows outside any
    sequence are left unwritten by some, and empty sequences are undefined in others.

    Args:
        batch: On the CPU.
        key: As `Buckets.key` gave it for this batch.

    Returns:
        The batch itself where it fits exactly; else one on the CPU in which the real sequences come first, `order`
        numbers the dummies after them, and dummies hold token 0 in segment 0, none of it left out.

    Raises:
        ValueError: The key is not one for this batch.
    """
    padding, dummies = key.num_tokens - batch.num_tokens, key.num_sequences - batch.num_sequences
    if not _can_pad(padding, dummies, key.max_seqlen) or batch.max_seqlen > key.max_seqlen:
        message = (
            f"a batch of {batch.num_tokens} tokens in {batch.num_sequences} sequences of at most {batch.max_seqlen} "
            f"cannot be padded to {key}: use the key that Buckets.key gives for it"
        )
        raise ValueError(message)
    if dummies == 0:
        return batch
    lengths = spread(padding, dummies)
    stops = np.cumsum(lengths)
    positions = np.arange(padding) - np.repeat(stops - lengths, lengths)
    host_cu_seqlens = np.concatenate([batch.host_cu_seqlens, batch.num_tokens + stops], dtype=np.int32)
    return RaggedBatch(
        token_ids=F.pad(batch.token_ids, (0, padding)),
        positions=torch.cat([batch.positions, torch.from_numpy(positions)]),
        cu_seqlens=torch.from_numpy(host_cu_seqlens),
        host_cu_seqlens=host_cu_seqlens,
        max_seqlen=max(batch.max_seqlen, int(lengths[-1])),
        segment_ids=None if batch.segment_ids is None else F.pad(batch.segment_ids, (0, padding)),
        skips=None if batch.skips is None else F.pad(batch.skips, (0, dummies)),
        order=np.concatenate([batch.order, np.arange(batch.num_sequences, key.num_sequences)]),
    )


def spread(num_tokens: int, num_sequences: int) -> npt.NDArray[np.int64]:
    """Share tokens out evenly: [num_sequences] lengths that differ by one at most, shortest first."""
    return (num_tokens + np.arange(num_sequences)) // num_sequences


def _can_pad(padding: int, dummies: int, longest: int) -> bool:
    """Whether so many dummies, of one to `longest` tokens each, can make up the padding; none make up none."""
    return dummies <= padding <= dummies * longest
