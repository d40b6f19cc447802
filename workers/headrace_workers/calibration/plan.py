"""Which batches are measured.

Knows lengths and counts. Does not know how long a batch takes: measure.py leaves a ladder when its rungs take too long.
Pure.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

_SHORT = 16  # tokens of a short query
_SHORTEST = 8
_MAX_RATIO = 8  # between the lengths of neighbouring ladders
_MAX_TOKENS = 2**17  # of one batch: past what saturates any device, and within its memory
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Shape:
    """One batch: so many tokens in each of its sequences."""

    lengths: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Of all sequences."""
        return sum(self.lengths)

    @property
    def num_squares(self) -> int:
        """Σlen²: pairs of tokens that share a sequence."""
        return sum(length * length for length in self.lengths)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Batches of one kind, each of about twice the tokens of the one before.

    Attributes:
        kind: what they have in common, for a person.
        rungs: the batches, in order.
        grows_longer: whether it is the length of a sequence that doubles, and not their number.
    """

    kind: str
    rungs: tuple[Shape, ...]
    grows_longer: bool = False


def ladders(max_length: int, max_tokens: int = _MAX_TOKENS) -> tuple[Ladder, ...]:
    """All that is worth measuring for a model whose sequences have up to `max_length` tokens.

    One sequence, from a short query's to the longest; many of one length, for some lengths up to the longest; and many
    of all lengths, as real batches are.
    """
    return (
        Ladder("one sequence", tuple(Shape((length,)) for length in _doubling(_SHORTEST, max_length)), True),
        *(_uniform(length, max_tokens) for length in _lengths(max_length)),
        _mixed(max_length, max_tokens),
    )


def _doubling(first: int, last: int) -> Iterator[int]:
    """`first`, twice that, and so on; and `last`."""
    value = first
    while value < last:
        yield value
        value *= 2
    yield last


def _lengths(max_length: int) -> tuple[int, ...]:
    """From a short query's length to the longest, in even ratios."""
    if max_length <= _SHORT:
        return (max_length,)
    steps = max(2, math.ceil(math.log(max_length / _SHORT, _MAX_RATIO)))
    ratio = (max_length / _SHORT) ** (1 / steps)
    return tuple(dict.fromkeys(round(_SHORT * ratio**step) for step in range(steps + 1)))


def _uniform(length: int, max_tokens: int) -> Ladder:
    counts = (2**power for power in range(1, 1 + max(1, int(math.log2(max(2, max_tokens / length))))))
    return Ladder(f"{length:,} tokens each", tuple(Shape((length,) * count) for count in counts))


def _mixed(max_length: int, max_tokens: int) -> Ladder:
    targets = _doubling(max(max_length, 4 * _SHORT), max(max_tokens, max_length, 4 * _SHORT))
    return Ladder("mixed lengths", tuple(Shape(_spread(max_length, target)) for target in targets))


def _spread(max_length: int, num_tokens: int) -> tuple[int, ...]:
    """Lengths from the shortest to the longest, spread evenly on a logarithmic scale, of at least so many tokens."""
    lengths, total = list[int](), 0
    shortest = min(_SHORTEST, max_length)
    while total < num_tokens:
        # Multiples of the golden section leave no gap anywhere, however many there are.
        place = (len(lengths) + 1) * _GOLDEN % 1
        lengths.append(round(shortest * (max_length / shortest) ** place))
        total += lengths[-1]
    return tuple(lengths)
