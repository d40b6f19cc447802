"""Large JSON in pieces: encoded and handed over one by one, so that the event loop is never held for long.

Knows how much a piece holds, and for how long a client may not take one. Does not know what is in it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

Pieces: TypeAlias = Sequence[bytes]

# Elements of a piece: a millisecond of a core, as floats. A thread would not help: encoding holds Python's lock.
_PIECE = 16_384
_TAKE_S = 30.0
_encoder = msgspec.json.Encoder()


async def array(num_items: int, item_size: int, make: Callable[[range], Sequence[Any]]) -> list[bytes]:
    """A JSON array, encoded with pauses for others.

    Args:
        num_items: its length.
        item_size: numbers in an item, about.
        make: the items of a range.
    """
    step = max(1, _PIECE // max(1, item_size))
    pieces = []
    for first in range(0, num_items, step):
        if first:
            await asyncio.sleep(0)
        items = _encoder.encode(make(range(first, min(first + step, num_items))))
        pieces.append((b"," if first else b"[") + items[1:-1])
    return [*pieces, b"]" if pieces else b"[]"]


def put_into(envelope: bytes, pieces: Pieces) -> list[bytes]:
    """The array in place of the first empty one of the envelope."""
    before, after = envelope.split(b"[]", 1)
    return [before, *pieces, after]


class PiecewiseResponse(ASGIResponse):
    """Hands its body over in pieces.

    Nothing copies the whole of it, and no more is handed over than the client takes. A client that takes nothing for
    half a minute loses its connection: it would hold its place among the requests.
    """

    def __init__(self, pieces: Pieces, **options: Any) -> None:
        super().__init__(content_length=sum(map(len, pieces)), **options)
        self._pieces = pieces

    async def send_body(self, send: Send, receive: Receive) -> None:  # noqa: ARG002 - Litestar's signature
        """Hand it over."""
        try:
            for piece in self._pieces:
                async with asyncio.timeout(_TAKE_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            return  # less than was announced: the server closes the connection
        await send({"type": "http.response.body", "body": b"", "more_body": False})
