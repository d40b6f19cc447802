"""What the benchmarks run: texts whose lengths are those of real use, texts of a fixed length, and batches of ids.

It knows lengths, seeds and sentences; everything is the same on each call and on each machine. It counts tokens by the
model's own tokenizer, since lengths are given in tokens, but what it hands out is text: tokenising is part of the cost.
It knows no engine, no client and no clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

_SEED = 0
_CLS, _SEP = 101, 102
# In BERT's vocabulary the ids below are special, unused or single characters.
_FIRST_WORD = 1999
# 128 lengths from 5 to 249 drawn from this seed add up to 16,377 tokens.
_MIXED_SEED = 3582


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A log-normal distribution of tokens, cut off at both ends: many short texts, and a long tail.

    Attributes:
        median: Half of the texts are shorter.
        sigma: Of the logarithm.
        shortest: No text is shorter.
        longest: No text is longer.
    """

    median: float
    sigma: float
    shortest: int
    longest: int

    def draw(self, num: int, seed: int) -> list[int]:
        """So many lengths, the same ones each time."""
        drawn = np.random.default_rng(seed).lognormal(np.log(self.median), self.sigma, num)
        return [int(length) for length in np.clip(np.rint(drawn), self.shortest, self.longest)]


# What people type into a search box: six words at the median, as in MS MARCO's queries (arXiv:1611.09268).
QUERIES = Lengths(median=9, sigma=0.45, shortest=4, longest=30)
# Chunks of documents as they are indexed: paragraphs mostly, as MS MARCO's passages are, some as long as a splitter of
# 512 tokens lets them be.
PASSAGES = Lengths(median=96, sigma=0.65, shortest=64, longest=512)


class Texts:
    """Texts made of real sentences, of lengths to the token."""

    def __init__(self, tokenizer_json: Path) -> None:
        """Take the model's tokenizer."""
        self._tokenizer = Tokenizer.from_file(str(tokenizer_json))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._num_special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self._count = cache(lambda word: len(self._tokenizer.encode(word, add_special_tokens=False)))

    def num_tokens(self, text: str) -> int:
        """Tokens of a text, special ones included."""
        return len(self._tokenizer.encode(text))

    def of(self, lengths: Sequence[int], seed: int = _SEED) -> list[str]:
        """Texts of so many tokens each, special ones included."""
        words = _words(seed)
        return [self._text(words, length - self._num_special) for length in lengths]

    def pair(self, query: str, lengths: Sequence[int], seed: int = _SEED) -> list[str]:
        """Documents that make pairs of so many tokens each with a query, special ones included."""
        taken = len(self._tokenizer.encode(query, "", add_special_tokens=True))
        words = _words(seed)
        return [self._text(words, length - taken) for length in lengths]

    def _text(self, words: Iterator[str], num_tokens: int) -> str:
        taken: list[str] = []
        room = num_tokens
        while room > 0:
            word = next(words)
            # Near the end only what fits; a word of one token comes soon enough.
            if self._count(word) <= room:
                taken.append(word)
                room -= self._count(word)
        return " ".join(taken)


def _words(seed: int) -> Iterator[str]:
    """The words of real sentences, the sentences in random order, for ever."""
    sentences = (files("headrace") / "demo" / "sentences.txt").read_text("utf-8").splitlines()
    random = np.random.default_rng(seed)
    while True:
        for index in random.permutation(len(sentences)):
            yield from sentences[index].split()


@dataclass(frozen=True, slots=True)
class Shape:
    """The lengths of one batch of ids, for the engine alone.

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
