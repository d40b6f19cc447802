"""The batches that stand for what a model is used for.

Pure arithmetic on lengths. It knows that most texts are short. It does not know what a batch costs, nor who runs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headrace_engine.batch import RaggedBatch, pack

Lengths = tuple[int, ...]

_TOKENS = 16_384  # with as many, launches and the tails of kernels count for little
_QUERY_TOKENS = 32
_SHORTEST = 16  # no step of the lengths goes below it
_STEP = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a mix.

    Attributes:
        limit: It stands for models of up to so many tokens a sequence, and for those of more.
        lengths: The tokens of each sequence.
    """

    limit: int
    lengths: Lengths

    def __str__(self) -> str:
        """Name it for a person: "5 × 512", or "6 × 257…512" where lengths differ."""
        shortest, longest = min(self.lengths), max(self.lengths)
        return f"{len(self.lengths)} × {longest if shortest == longest else f'{shortest}…{longest}'}"


def mix(max_length: int) -> tuple[Batch, ...]:
    """The batches for a model: one short query alone, and a full batch for each length that it is used at.

    The lengths are the model's limit, its quarter, that one's quarter, and so on down to some 16 to 63 tokens. Spaced
    by their ratio, most of them are short, as most texts are even where the limit is high. In a full batch, of about
    16,384 tokens, sequences are of half the length up to all of it: equal lengths would flatter an attention that runs
    them in one call. Texts longer than 16,384 tokens stand in no batch.

    Args:
        max_length: The most tokens of a sequence of the model, at least 1.

    Returns:
        The query first, then full batches with limits that rise to `max_length`.
    """
    longest = [min(max_length, _TOKENS)]
    while longest[0] >= _STEP * _SHORTEST:
        longest.insert(0, longest[0] // _STEP)
    limits = (*longest[:-1], max_length)
    query = Batch(0, (min(_QUERY_TOKENS, max_length),))
    return (query, *(Batch(limit, full(length)) for limit, length in zip(limits, longest, strict=True)))


def full(longest: int) -> Lengths:
    """Lengths from half of `longest` up to it, evenly spread, of no more than 16,384 tokens in all but one sequence."""
    shortest = longest // 2 + 1
    num = max(1, 2 * _TOKENS // (shortest + longest))
    lengths: list[int] = np.linspace(longest, shortest, num).astype(np.int64).tolist()
    return tuple(lengths)


def packed(lengths: Sequence[int], vocab_size: int) -> RaggedBatch:
    """A batch of these lengths, of random tokens that are the same each time."""
    bounds = np.cumsum([0, *lengths])
    ids: npt.NDArray[np.uint32] = np.random.default_rng(0).integers(0, vocab_size, bounds[-1], dtype=np.uint32)
    return pack([ids[start:stop] for start, stop in pairwise(bounds.tolist())])
