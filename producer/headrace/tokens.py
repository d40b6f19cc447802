"""From texts to token ids, by the tokenizer.json that the fleet published.

Knows the Rust tokenizer, and how what is too long is cut. The file's own truncation and padding are switched off and
the model's limit applied: many a file truncates at half of what the model takes. Does not know chunks, nor how a pair
is joined: pairs.py does.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from headrace_contracts import SegmentIds, TokenIds
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from headrace.errors import HeadraceError, InputError

# Below this many characters a hop to a thread costs more than the work.
_INLINE_CHARACTERS = 4096
# Characters that are tokenised at a time. What the tokenizer made of them is let go while Python's lock is held, and of
# two million characters that takes 4 ms; a tenth of them still keeps all cores busy.
_PIECE_CHARACTERS = 262_144
_EMPTY_CHARACTERS = 16  # what a text without characters costs, in characters
# Why a text has no vector of which the tokenizer leaves nothing.
NO_TOKENS = "0 tokens: this model's tokenizer makes none of it, so there is nothing to compute"

Text = TypeVar("Text")


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
    def of(cls, encodings: Iterable[Encoding], max_length: int, *, with_segments: bool = False) -> Self:
        """Cut what is longer than `max_length` tokens at the end of its last text; special tokens stay.

        Raises:
            InputError: special tokens alone are more than that.
        """
        sequences, segment_ids, full_lengths = [], [], []
        for encoding in encodings:
            gap = _gap(encoding, max_length)
            sequences.append(np.array(_without(encoding.ids, gap), np.uint32))
            if with_segments:
                segment_ids.append(np.array(_without(encoding.type_ids, gap), np.uint8))
            full_lengths.append(len(encoding))
        return cls(sequences, np.array(full_lengths, np.int64), segment_ids if with_segments else None)

    @property
    def num_tokens(self) -> NDArray[np.int64]:
        """[n] tokens of each after the cut; 0 of a text that says nothing to a tokenizer without special tokens."""
        return np.fromiter(map(len, self.sequences), np.int64, len(self.sequences))

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """[n] whether something was cut off."""
        return self.full_lengths > self.num_tokens


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
        """Tokenise here and now.

        Raises:
            HeadraceError: the tokenizer cannot.
        """
        with rust_errors("the model's tokenizer fails"):
            prompted = [prompt + text for text in texts]
            encodings = piecewise(self.rust.encode_batch_fast, prompted, map(len, prompted))
            tokenized = Tokenized.of(encodings, self._max_length)
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


@contextmanager
def rust_errors(what: str) -> Iterator[None]:
    """Have what the Rust tokenizer raises be an error of this package: nothing of it has a class of its own.

    Raises:
        HeadraceError: in place of any Exception, and of a panic of Rust, which is none.
    """
    try:
        yield
    except HeadraceError:
        raise
    except BaseException as error:
        # PanicException cannot be imported: each extension in Rust makes its own.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise HeadraceError(f"{what}: {error}") from error


async def in_turn(tokenize: Callable[[], Tokenized], num_characters: int) -> Tokenized:
    """Tokenise here if that is short work, else in a thread."""
    return tokenize() if num_characters <= _INLINE_CHARACTERS else await asyncio.to_thread(tokenize)


def piecewise(
    encode: Callable[[list[Text]], Sequence[Encoding]], texts: Iterable[Text], sizes: Iterable[int]
) -> Iterator[Encoding]:
    """Encode texts some at a time; a piece is let go once its last encoding was taken.

    Args:
        encode: of some texts or pairs.
        texts: all of them.
        sizes: characters of each.
    """
    piece: list[Text] = []
    room = _PIECE_CHARACTERS
    for text, size in zip(texts, sizes, strict=True):
        piece.append(text)
        room -= size + _EMPTY_CHARACTERS
        if room <= 0:
            yield from encode(piece)
            piece, room = [], _PIECE_CHARACTERS
    if piece:
        yield from encode(piece)


def _gap(encoding: Encoding, max_length: int) -> slice:
    """The tokens that must go: the last ones of the last text."""
    too_many = len(encoding) - max_length
    if too_many <= 0:
        return slice(0, 0)
    # Asked one by one: a list of where all tokens belong would be as long as the text.
    places = reversed(range(len(encoding)))
    end = next((place + 1 for place in places if encoding.token_to_sequence(place) is not None), 0)
    start = end - too_many
    if start < 0 or encoding.token_to_sequence(start) is None:
        raise InputError(
            f"the model takes {max_length} tokens, which its tokenizer's own special tokens alone exceed: use another "
            "model, or give this one a longer max_length"
        )
    return slice(start, end)


def _without(ids: list[int], gap: slice) -> list[int]:
    del ids[gap]
    return ids
