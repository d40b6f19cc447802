"""The messages of the wire contract: whatever comes decodes, or is a DecodeError, and what decodes stays as it is.

It knows the codec and which fields of a message must agree. It does not know how a message travels.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

import numpy as np
from headrace_contracts import (
    DTYPES,
    DecodeError,
    decode_cancel,
    decode_chunk,
    decode_presence,
    decode_reply,
    decode_spec,
    encode_cancel,
    encode_chunk,
    encode_presence,
    encode_reply,
    encode_spec,
)
from headrace_contracts.control import decode_request, decode_status, encode_request, encode_status
from headrace_contracts.messages import numpy_dtype, row_elements

from fuzz.mutation import Mutate, mutated_json, mutated_msgpack
from fuzz.target import Target, Verdict, Wrong
from fuzz.trees import changed
from fuzz.vectors import vectors

T = TypeVar("T")


def targets() -> list[Target]:
    """One a kind of message."""
    return [
        _target("chunk", decode_chunk, encode_chunk, partial(mutated_msgpack, refit=refit_chunk)),
        _target("reply", decode_reply, encode_reply, partial(mutated_msgpack, refit=refit_reply)),
        _target("cancel", decode_cancel, encode_cancel, mutated_msgpack),
        _target("presence", decode_presence, encode_presence, mutated_msgpack),
        _target("spec", decode_spec, encode_spec, mutated_json),
        _target("request", decode_request, lambda found: encode_request(found.wait_ms), mutated_json),
        _target("status", decode_status, encode_status, mutated_json),
    ]


def _target(kind: str, decode: Callable[[bytes], T], encode: Callable[[T], bytes], mutate: Mutate) -> Target:
    return Target(
        name=kind,
        group="decode",
        seeds=lambda: list(vectors(kind)),
        run=partial(round_trip, decode, encode),
        mutate=mutate,
    )


def round_trip(decode: Callable[[bytes], T], encode: Callable[[T], bytes], data: bytes) -> Verdict:
    """Decode, and what decodes once more.

    Raises:
        Wrong: It came back as something else, or the refusal cannot be sent to whoever is to read it.
    """
    try:
        found = decode(data)
    except DecodeError as error:
        check_text(str(error))
        return Verdict.REFUSED
    written = encode(found)
    again = decode(written)
    if not same(found, again):
        raise Wrong(f"{found!r} comes back as {again!r}")
    if encode(again) != written:
        raise Wrong(f"{found!r} is written in two ways")
    return Verdict.TAKEN


def check_text(text: str) -> None:
    """See that a text can travel in a message.

    Raises:
        Wrong: It is empty, or cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Wrong(f"a text of an error that no message can carry: {text!r}") from error
    if not text.strip():
        raise Wrong("an error says nothing")


def same(one: Any, other: Any) -> bool:
    """Whether two messages are alike in all that they hold, arrays included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if is_dataclass(one):
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return bool(one == other)


def refit_chunk(tree: Any, rng: Random) -> Any:
    """Another chunk whose lengths add up, or nearly."""
    if not isinstance(tree, dict):
        return tree
    lengths = [rng.choice((1, 1, 2, 3, 7, 40)) for _ in range(rng.choice((1, 1, 2, 5, 16)))]
    total = sum(lengths)
    found = {**tree, "n": len(lengths), "len": _words(lengths), "tok": rng.randbytes(4 * total)}
    if rng.random() < 0.5:
        found["tok"] = _words([rng.randrange(200) for _ in range(total)])
    if "typ" in found or rng.random() < 0.3:
        found["typ"] = bytes(rng.choice((0, 0, 1)) for _ in range(total))
    # All of it good, or all but one thing.
    return found if rng.random() < 0.6 else changed(found, rng)


def refit_reply(tree: Any, rng: Random) -> Any:
    """Another reply whose rows add up, or nearly."""
    if not isinstance(tree, dict):
        return tree
    dtype = rng.choice(DTYPES)
    n, dim = rng.choice((1, 2, 5)), rng.choice((1, 7, 8, 9, 33))
    size = n * row_elements(dtype, dim) * numpy_dtype(dtype).itemsize
    found = {**tree, "n": n, "dim": dim, "dtype": dtype, "vec": rng.randbytes(size)}
    found["bad"] = [[rng.randrange(n), "non_finite", "none"] for _ in range(rng.randrange(3))]
    found.setdefault("usage", {"tokens": 3, "queue_ms": 0.5, "run_ms": 1, "batch_tokens": 9})
    if rng.random() < 0.8:
        found.pop("error", None)
    return found if rng.random() < 0.6 else changed(found, rng)


def _words(values: list[int]) -> bytes:
    return np.array(values, "<u4").tobytes()
