"""What the benchmarks run: batches of token ids of fixed shapes, and texts.

It knows lengths, seeds and words; everything is the same on each call and on each machine. It knows no engine, no
client and no clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CLS, _SEP = 101, 102
# In BERT's vocabulary the ids below are special, unused or single characters.
_FIRST_WORD = 1999
_SEED = 0
# 128 lengths from 5 to 249 drawn from this seed add up to 16,377 tokens.
_MIXED_SEED = 3582

QUERIES = (
    "how long do boiled eggs keep in the fridge",
    "cheapest flights from Lisbon to Oslo in March",
    "what causes the northern lights",
    "python read csv file without pandas",
    "symptoms of iron deficiency in adults",
    "best way to remove rust from garden tools",
    "who wrote the first dictionary of English",
    "train strike compensation rules",
    "difference between a virus and a bacterium",
    "can a landlord raise the rent during a lease",
    "recipe for lentil soup with lemon and cumin",
    "why does my laptop fan run all the time",
    "opening hours of the national museum on public holidays",
    "convert 250 grams of flour to cups",
    "how does a heat pump work in winter",
    "return policy for shoes bought online",
    "average rainfall in the Atacama desert",
    "what to do when a tyre bursts on the motorway",
    "meaning of the proverb still waters run deep",
    "postgres index not used by the query planner",
    "is it safe to drink water from the tap in Marrakesh",
    "how many moons does Saturn have",
    "beginner exercises for lower back pain",
    "history of the water mill in medieval Europe",
    "cancel a gym membership before the contract ends",
    "which birds migrate across the Sahara",
    "kubernetes pod stuck in terminating state",
    "learn to play the ukulele in a week",
    "tax on selling a second home after ten years",
    "what is the boiling point of ethanol",
    "good novels set on a remote island",
    "repair a scratch in an oak floor",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The lengths of one batch.

    Attributes:
        name: As tables show it.
        lengths: Tokens of each sequence, special tokens included.
    """

    name: str
    lengths: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(self.lengths)

    def sequences(self, vocab_size: int) -> list[NDArray[np.uint32]]:
        """Random words between [CLS] and [SEP], the same ones each time.

        Args:
            vocab_size: Ids are below it.
        """
        words = np.random.default_rng(_SEED)
        return [
            np.array([_CLS, *words.integers(_FIRST_WORD, vocab_size, length - 2), _SEP], np.uint32)
            for length in self.lengths
        ]


SHAPES = (
    Shape("10 tok", (10,)),
    Shape("128 tok", (128,)),
    Shape("512 tok", (512,)),
    Shape("8×64", (64,) * 8),
    Shape("16×128", (128,) * 16),
    Shape("100×20", (20,) * 100),
    Shape("mixed", tuple(np.random.default_rng(_MIXED_SEED).integers(5, 250, 128).tolist())),
)


def documents(num: int, words: Sequence[str] = tuple(" ".join(QUERIES).split())) -> list[str]:
    """Texts of 5 to 40 words without sense, short to middle as passages of a search index are.

    Args:
        num: How many.
        words: What they are made of.
    """
    random = np.random.default_rng(_SEED)
    return [" ".join(random.choice(words, length)) for length in random.integers(5, 41, num)]
