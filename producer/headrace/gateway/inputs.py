"""What the field of an embedding request may hold, texts or token ids, and how its vectors are written.

Knows the ways that the APIs share. Does not know the APIs.
"""

import binascii
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import numpy as np
from headrace_contracts import ModelSpec
from msgspec import Meta

from headrace.embeddings import Embeddings
from headrace.errors import InputError
from headrace.gateway.call import Call
from headrace.gateway.ids import Id, Ids
from headrace.gateway.limits import Limits
from headrace.gateway.naming import naming

Input: TypeAlias = Annotated[
    str | list[str | Id | Ids],
    Meta(description="a text, a list of texts, the token ids of a text, or a list of such; items are of one kind"),
]
EncodingFormat: TypeAlias = Annotated[
    Literal["float", "base64"], Meta(description="base64 is of float32, little-endian")
]


async def embed(value: str | Sequence[Any], field: str, spec: ModelSpec, call: Call, **options: Any) -> Embeddings:
    """Embed what the field holds; `truncate` and `prompt_name` are for texts alone.

    Raises:
        Refused: it holds too many, nothing, or items of several kinds, or token ids are to have a prompt; or the model
            cannot do what is asked.
        HeadraceError: see Client.embed and Client.embed_ids.
    """
    dtype = "f32" if "f32" in spec.dtypes else spec.default_dtype
    with naming(dim="dimensions", texts=field, token_ids=field):
        items, kind = _read(value, field, call.limits)
        if kind is str:
            return await call.embed(spec, items, dtype=dtype, **options)
        if options.pop("prompt_name", None) is not None:
            raise InputError("prompt_name: token ids have no prompt put before them; send texts, or put its ids there")
        options.pop("truncate", None)
        return await call.embed_ids(spec, items, dtype=dtype, **options)


def _read(value: str | Sequence[Any], field: str, limits: Limits) -> tuple[list[Any], type]:
    """The texts or sequences of ids, and which of them they are: str, or else list or array."""
    if isinstance(value, str):
        return [value], str
    if not value:
        raise InputError(f"{field} is empty: send at least one")
    kind = type(value[0])
    if kind is not int:
        limits.check_items(len(value), field)
    if set(map(type, value)) != {kind}:
        raise InputError(f"{field} mixes texts, numbers and lists: send items of one kind")
    return ([value], list) if kind is int else (cast("list[Any]", value), kind)


def floats(vectors: Embeddings) -> np.ndarray[Any, Any]:
    """The vectors [n, dim] as float32, little-endian, whatever the model replies in."""
    return np.ascontiguousarray(vectors, "<f4")


def written(rows: np.ndarray[Any, Any], encoding_format: str | None) -> list[Any]:
    """Some of these vectors as they stand in JSON: lists of numbers, or base64."""
    if encoding_format == "base64":
        return [binascii.b2a_base64(row, newline=False).decode() for row in rows]
    return cast("list[Any]", rows.tolist())
