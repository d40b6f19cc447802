"""Tokens as people look at them: id, text, place.

Knows the Rust tokenizer. Does not know the API.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from tokenizers import Encoding, Tokenizer

from headrace.errors import InputError
from headrace.gateway.limits import Limits

# Tokens of a piece of JSON: encoding one holds Python's lock, for a fraction of a millisecond.
_SLICE = 2000
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


async def tokens_of(texts: Sequence[str], tokenizer: Tokenizer, limits: Limits, *, special: bool) -> msgspec.Raw:
    """The JSON of each text's tokens, made in a thread.

    Raises:
        InputError: there are more tokens than a request may have.
    """
    return await asyncio.to_thread(_tokens, texts, tokenizer, limits.max_tokens, special)


def _tokens(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int, special: bool) -> msgspec.Raw:
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=special)
    total = sum(map(len, encodings))
    if total > max_tokens:
        raise InputError(f"inputs come to {total} tokens: at most {max_tokens} a request, so split them")
    lists = (_json(text, encoding) for text, encoding in zip(texts, encodings, strict=True))
    return msgspec.Raw(b"[" + b",".join(lists) + b"]")


def _json(text: str, encoding: Encoding) -> bytes:
    columns = (encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets)
    parts = []
    for first in range(0, len(encoding), _SLICE):
        tokens = [
            Token(id_, name, True, None, None) if is_special else Token(id_, text[start:stop], False, start, stop)
            for id_, name, is_special, (start, stop) in zip(
                *(column[first : first + _SLICE] for column in columns), strict=True
            )
        ]
        parts.append(_encoder.encode(tokens)[1:-1])
    return b"[" + b",".join(parts) + b"]"
