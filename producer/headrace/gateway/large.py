"""Large bodies: weighed before they are decoded, and their token ids decoded some at a time.

Knows JSON, and what decoding costs: it holds Python's lock, so a thread would not help the event loop. Does not know
fields but one, which a type names in `ids_field`: the one that may hold lists of token ids.
"""

import asyncio
import gc
import re
from functools import cache
from typing import Any

import msgspec
import numpy as np
from headrace_contracts import TokenIds

from headrace.gateway.ids import Ids
from headrace.gateway.limits import Limits
from headrace.gateway.problems import Kind, Refused

# A body may hold so many strings, and so many lists, even of few items: documents have fields. 4 ms of decoding.
_MAX_VALUES = 65_536
_PIECE_BYTES = 65_536  # of ids: 10,000 of them, and half a millisecond

_LISTS = re.compile(rb"\s*\[\s*\[")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_ids = msgspec.json.Decoder(Ids)


@cache
def decoder(wanted: Any) -> "msgspec.json.Decoder[Any]":
    """The decoder of a type."""
    return msgspec.json.Decoder(wanted)


async def decode(body: bytes, wanted: Any, limits: Limits) -> Any:
    """Decode into the type; lists of token ids become arrays.

    Raises:
        Refused: it holds more than any request may.
        msgspec.DecodeError: it is no JSON.
        msgspec.ValidationError: it is not of the type.
    """
    _weigh(body, limits)
    field = getattr(wanted, "ids_field", None)
    fields = {} if field is None else _fields.decode(body)
    if field not in fields or not _LISTS.match(fields[field]):
        return _without_collector(body, wanted)
    await asyncio.sleep(0)
    lists = _items.decode(fields[field])
    await asyncio.sleep(0)
    limits.check_items(len(lists), field)
    request = decoder(wanted).decode(msgspec.json.encode({**fields, field: []}))
    try:
        setattr(request, field, await _arrays(lists))
    except msgspec.ValidationError:
        return _without_collector(body, wanted)  # whose error names the place
    return request


def _weigh(body: bytes, limits: Limits) -> None:
    """Count strings, lists and commas, which is much less work than decoding them.

    Raises:
        Refused: there are too many.
    """
    most = max(_MAX_VALUES, 4 * limits.max_items)
    most_values = limits.max_tokens + most
    signs = np.frombuffer(body, np.uint8)
    bounds = ((b'"', 2 * most), (b"[", most), (b",", most_values))
    if all(np.count_nonzero(signs == ord(sign)) <= bound for sign, bound in bounds):
        return
    # Those in texts do not count. Without escapes each quote begins or ends a string, so every second piece is outside.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    _check("strings", plain.count(b'"') // 2, most)
    outside = b"".join(plain.split(b'"')[::2])
    _check("lists", outside.count(b"["), most)
    _check("values", outside.count(b","), most_values)


def _check(what: str, number: int, most: int) -> None:
    if number > most:
        raise Refused(Kind.TOO_LARGE, f"the body holds {number} {what}: at most {most} a request, so split it")


async def _arrays(lists: list[msgspec.Raw]) -> list[TokenIds]:
    arrays: list[TokenIds] = []
    size = 0
    for ids in lists:
        arrays.append(np.array(_ids.decode(ids), np.uint32))
        size += len(memoryview(ids))
        if size > _PIECE_BYTES:
            await asyncio.sleep(0)
            size = 0
    return arrays


def _without_collector(body: bytes, wanted: Any) -> Any:
    # The collector would look at all that is decoded so far, over and over: with many small objects that takes five
    # times as long as decoding. Nothing else runs meanwhile.
    if not gc.isenabled():
        return decoder(wanted).decode(body)
    gc.disable()
    try:
        return decoder(wanted).decode(body)
    finally:
        gc.enable()
