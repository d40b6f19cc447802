"""Documents that a caller wants cut to some tokens of their own.

Knows the Rust tokenizer. Does not know pairs: the client cuts them to what the model takes.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from tokenizers import Encoding, Tokenizer

from headrace.tokens import piecewise


async def cut(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> list[str]:
    """The beginnings of the texts, at most so many tokens of each; in a thread, so that the event loop goes on."""
    return await asyncio.to_thread(_cut, texts, tokenizer, max_tokens)


def _cut(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> list[str]:
    encodings = piecewise(partial(tokenizer.encode_batch, add_special_tokens=False), texts, map(len, texts))
    return [_beginning(text, encoding, max_tokens) for text, encoding in zip(texts, encodings, strict=True)]


def _beginning(text: str, encoding: Encoding, max_tokens: int) -> str:
    if len(encoding) <= max_tokens:
        return text
    place = encoding.token_to_chars(max_tokens - 1)
    return text if place is None else text[: place[1]]
