"""Large answers as JSON, a slice at a time, so that the event loop is never held for long.

Knows how long a slice may take. Does not know what is in it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

# Elements of a slice: a millisecond of a core, as floats. A thread would not help: encoding holds Python's lock.
_SLICE = 16_384
_encoder = msgspec.json.Encoder()


async def array(num_items: int, item_size: int, make: Callable[[range], Sequence[Any]]) -> msgspec.Raw:
    """A JSON array, encoded with pauses for others.

    Args:
        num_items: its length.
        item_size: numbers in an item, about.
        make: the items of a range.
    """
    step = max(1, _SLICE // max(1, item_size))
    parts = []
    for first in range(0, num_items, step):
        if first:
            await asyncio.sleep(0)
        parts.append(_encoder.encode(make(range(first, min(first + step, num_items))))[1:-1])
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")
