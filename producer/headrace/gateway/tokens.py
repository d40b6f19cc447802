"""Tokens as people look at them: id, text, place.

Knows the Rust tokenizer. Does not know the API.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
from msgspec import Struct
from tokenizers import Encoding, Tokenizer

from headrace.errors import InputError
from headrace.gateway.limits import Limits
from headrace.gateway.pieces import Pieces
from headrace.tokens import piecewise, rust_errors

# Tokens of a piece of JSON: encoding one holds Python's lock, for a fraction of a millisecond.
_SLICE = 2000
_PIECE_BYTES = 262_144
_encoder = msgspec.json.Encoder()


class Token(Struct):
    """One token; a special one has no place in the text.

    Attributes:
        id: in the vocabulary.
        text: the part of the text that it stands for, or its name if it is special.
        special: whether the tokenizer added it.
        start: where its text begins, in characters.
        stop: where it ends.
    """

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


async def tokens_of(texts: Sequence[str], tokenizer: Tokenizer, limits: Limits, *, special: bool) -> Pieces:
    """The JSON of each text's tokens, made in a thread.

    Raises:
        InputError: there are more tokens than a request may have.
        HeadraceError: the tokenizer cannot do it.
    """
    return await asyncio.to_thread(_tokens, texts, tokenizer, limits.max_tokens, special)


def _tokens(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int, special: bool) -> Pieces:
    with rust_errors("the model's tokenizer fails"):
        return _merged(_lists(texts, tokenizer, max_tokens, special))


def _lists(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int, special: bool) -> list[bytes]:
    encode = partial(tokenizer.encode_batch, add_special_tokens=special)
    lists: list[bytes] = []
    total = 0
    for text, encoding in zip(texts, piecewise(encode, texts, map(len, texts)), strict=True):
        total += len(encoding)
        if total > max_tokens:
            raise InputError(f"inputs come to {total} or more tokens: at most {max_tokens} a request, so split them")
        lists += (b",[" if lists else b"[[", *_json(text, encoding, tokenizer), b"]")
    return [*lists, b"]" if lists else b"[]"]


def _json(text: str, encoding: Encoding, tokenizer: Tokenizer) -> Iterator[bytes]:
    # Not .tokens and .offsets: for a long text, each holds Python's lock for as long as it takes to make all of it.
    ids, special = encoding.ids, encoding.special_tokens_mask

    def token(index: int) -> Token:
        place = None if special[index] else encoding.token_to_chars(index)
        if place is None:
            return Token(ids[index], tokenizer.id_to_token(ids[index]) or "", True, None, None)
        start, stop = place
        return Token(ids[index], text[start:stop], False, start, stop)

    for first in range(0, len(encoding), _SLICE):
        some = [token(index) for index in range(first, min(first + _SLICE, len(encoding)))]
        yield (b"," if first else b"") + _encoder.encode(some)[1:-1]


def _merged(parts: Iterable[bytes]) -> Pieces:
    """The same in pieces of some size: of many short texts, each part is some bytes."""
    pieces: list[bytes] = []
    some: list[bytes] = []
    size = 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size > _PIECE_BYTES:
            pieces.append(b"".join(some))
            some, size = [], 0
    return [*pieces, b"".join(some)]
