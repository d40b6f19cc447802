"""From texts to token ids, by the tokenizer.json that the fleet published.

Knows the Rust tokenizer, and how what is too long is cut. The file's own truncation and padding are switched off and
the model's limit applied: many a file truncates at half of what the model takes. Does not know chunks, nor how a pair
is joined: pairs.py does.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """

    sequences: list[TokenIds]
    full_lengths: NDArray[np.int64]
    segment_ids: list[SegmentIds] | None = None

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

    def __init__(self, tokenizer_json: str, max_length: int) -> None:
        self.rust = Tokenizer.from_str(tokenizer_json)
        self.rust.no_padding()
        self.rust.no_truncation()
        self._max_length = max_length

    async def __call__(self, texts: Sequence[str], prompt: str = "") -> Tokenized:
        """Tokenise prompt + text, each; long inputs in a thread, so that the event loop goes on."""
        prompted = [prompt + text for text in texts] if prompt else texts
        return await in_turn(lambda: self.tokenize(prompted), sum(map(len, prompted)))

    def tokenize(self, texts: Sequence[str]) -> Tokenized:
        """Tokenise here and now."""
        return Tokenized.of(self.rust.encode_batch_fast(list(texts)), self._max_length)


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
