"""How vectors lie in a column of pgvector.

Knows that float32 is a vector, float16 a halfvec, bits a bit string; and that int8, which pgvector does not have, is
held by a halfvec exactly. Does not know tables.
"""

from typing import TypeAlias

import numpy as np
from headrace_contracts.messages import numpy_dtype
from numpy.typing import NDArray
from pgvector import Bit, HalfVector, Vector

from headrace.bulk.card import Card
from headrace.errors import SinkRefused

Element: TypeAlias = Vector | HalfVector | Bit

_TYPES = {"f32": "vector", "f16": "halfvec", "i8": "halfvec", "b1": "bit"}
_MAX_DIM = 16_000  # of vector and halfvec


def type_of(card: Card) -> str:
    """The type of column that holds vectors of the card.

    Raises:
        SinkError: they have too many dimensions for any.
    """
    name = _TYPES[card.dtype]
    if card.dtype != "b1" and card.dim > _MAX_DIM:
        text = f"dim={card.dim}: pgvector holds {_MAX_DIM} dimensions at most: ask for fewer (--dim), or for bits"
        raise SinkRefused(text)
    return f"{name}({card.dim})"


def type_name(card: Card) -> str:
    """The same without its dimensions."""
    return _TYPES[card.dtype]


def to_column(row: NDArray[np.generic], card: Card) -> Element:
    """A vector, [elements], as pgvector takes it."""
    match card.dtype:
        case "f32":
            return Vector(row.astype(np.float32, copy=False))
        case "f16" | "i8":
            return HalfVector(row.astype(np.float16))
        case "b1":
            return Bit(np.unpackbits(row.view(np.uint8), count=card.dim))


def to_row(element: Vector | HalfVector | bytes, card: Card) -> NDArray[np.generic]:
    """A vector as it was, [elements] of the card's dtype, from what a binary cursor gives: of bits, what is sent."""
    if isinstance(element, bytes):
        return np.packbits(Bit.from_binary(element).to_numpy())
    return element.to_numpy().astype(numpy_dtype(card.dtype))
