"""From texts to token ids, by the tokenizer.json that the fleet published.

Knows the Rust tokenizer, and how what is too long is cut. The file's own truncation and padding are switched off and
the model's limit applied: many a file truncates at half of what the model takes. Does not know chunks, nor how a pair
is joined: pairs.py does.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from headrace_contracts import SegmentIds, TokenIds
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

# Below this many characters a hop to a thread costs more than the work.
_INLINE_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Tokenized:
    """Texts or pairs as token ids.

    Attributes:
        sequences: one array of ids a text or pair, cut to the model's limit.
        full_lengths: [n] tokens of each before the cut.
        segment_ids: one array a pair, as long as its sequence, for models that tell segments apart; else None.
        skip: leading tokens of every sequence that are left out of the pooling: the prompt's, for models that want so.
    """

    sequences: list[TokenIds]
    full_lengths: NDArray[np.int64]
    segment_ids: list[SegmentIds] | None = None
    skip: int = 0

    @classmethod
    def of(cls, encodings: Sequence[Encoding], max_length: int, *, with_segments: bool = False) -> Self:
        """Cut what is longer than `max_length` tokens at the end of its last text; special tokens stay."""
        gaps = [_gap(encoding, max_length) for encoding in encodings]
        sequences = [np.array(_without(e.ids, gap), np.uint32) for e, gap in zip(encodings, gaps, strict=True)]
        segment_ids = None
        if with_segments:
            types = [encoding.type_ids for encoding in encodings]
            segment_ids = [np.array(_without(ids, gap), np.uint8) for ids, gap in zip(types, gaps, strict=True)]
        return cls(sequences, np.fromiter(map(len, encodings), np.int64, len(encodings)), segment_ids)

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """[n] whether something was cut off."""
        return self.full_lengths > np.fromiter(map(len, self.sequences), np.int64, len(self.sequences))


class TextTokenizer:
    """One model's tokenizer with the model's own length limit.

    Attributes:
        rust: the tokenizer itself, which neither truncates nor pads.
    """

    def __init__(self, rust: Tokenizer, max_length: int, *, include_prompt: bool = True) -> None:
        """Take the model's tokenizer.

        Args:
            rust: made of its tokenizer.json; truncation and padding are switched off in it.
            max_length: tokens of the longest sequence.
            include_prompt: whether the tokens of a prompt take part in the pooling, and need not be counted.
        """
        self.rust = rust
        self.rust.no_padding()
        self.rust.no_truncation()
        self._max_length = max_length
        added = {} if include_prompt else self.rust.get_added_tokens_decoder()
        self._special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        self._include_prompt = include_prompt

    async def __call__(self, texts: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise prompt + text, each; long inputs in a thread, so that the event loop goes on."""
        num_characters = sum(map(len, texts)) + len(prompt) * (len(texts) + 1)
        return await in_turn(lambda: self.tokenize(texts, prompt), num_characters)

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise here and now."""
        prompted = [prompt + text for text in texts]
        tokenized = Tokenized.of(self.rust.encode_batch_fast(prompted), self._max_length)
        if self._include_prompt or not prompt:
            return tokenized
        return replace(tokenized, skip=self._num_prompt_tokens(prompt))

    def _num_prompt_tokens(self, prompt: str) -> int:
        """Count a prompt as sentence-transformers does: alone, with special tokens, but without one at the end.

        The source is Transformer._get_prompt_length in sentence_transformers/base/modules/transformer.py, version 6.2.
        """
        (ids,) = Tokenized.of([self.rust.encode(prompt)], self._max_length).sequences
        ends_special = len(ids) > 0 and int(ids[-1]) in self._special_ids
        return len(ids) - ends_special


async def in_turn(tokenize: Callable[[], Tokenized], num_characters: int) -> Tokenized:
    """Tokenise here if that is short work, else in a thread."""
    return tokenize() if num_characters <= _INLINE_CHARACTERS else await asyncio.to_thread(tokenize)


def _gap(encoding: Encoding, max_length: int) -> slice:
    """The tokens that must go: the last ones of the last text."""
    too_many = len(encoding) - max_length
    if too_many <= 0:
        return slice(0, 0)
    behind = next(place for place, text in enumerate(reversed(encoding.sequence_ids)) if text is not None)
    end = len(encoding) - behind
    return slice(end - too_many, end)


def _without(ids: list[int], gap: slice) -> list[int]:
    del ids[gap]
    return ids
