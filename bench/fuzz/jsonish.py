"""JSON, as it should be written and nearly so.

It knows the format. It does not know messages.
"""

import json
from random import Random
from typing import Any

_ODD = (
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"-0",
    b"01",
    b"1.",
    b"'",
    b'"\\ud800"',
    b'"\xff"',
    b"\xef\xbb\xbf",
    b"//",
    b",",
)


def parsed(data: bytes) -> Any:
    """The value.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def written(tree: Any, rng: Random) -> bytes:
    """Write a value, mostly as everybody does."""
    try:
        text = json.dumps(tree, default=_text, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        text = b"[" * 1200 + b"]" * 1200
    chance = rng.random()
    if chance < 0.9 or not text:
        return text
    place = rng.randrange(len(text))
    if chance < 0.95:
        return text[:place] + rng.choice(_ODD) + text[place:]
    # The same key twice.
    return text[:-1] + b"," + text[1:] if text.startswith(b"{") else text + text


def _text(value: object) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, (bytes, bytearray)) else str(value)
