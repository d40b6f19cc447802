"""MessagePack, written in all the ways that it can be, and in some in which it must not.

It knows the format (https://github.com/msgpack/msgpack/blob/master/spec.md). It does not know messages.
"""

import struct
from random import Random
from typing import Any

import msgspec

_plain = msgspec.msgpack.Encoder()
_plain_decoder = msgspec.msgpack.Decoder()


def unpacked(data: bytes) -> Any:
    """The value.

    Raises:
        ValueError: It is no MessagePack.
    """
    try:
        return _plain_decoder.decode(data)
    except (RecursionError, TypeError, OverflowError) as error:  # TypeError: a map whose keys are maps
        raise ValueError(str(error)) from None


def packed(tree: Any, rng: Random | None = None) -> bytes:
    """Write a value, mostly as everybody does; always so, where nobody decides otherwise and that can be."""
    if rng is None or rng.random() < 0.85:
        try:
            return _plain.encode(tree)
        except (ValueError, TypeError, OverflowError, RecursionError):
            rng = rng or Random(0)  # noqa: S311 - for inputs, not for secrets
    out = bytearray()
    _write(tree, out, rng, 0)
    return bytes(out)


def _write(tree: Any, out: bytearray, rng: Random, depth: int) -> None:  # noqa: C901 - a branch a type
    if depth > 900 or tree is None:
        out += b"\xc0"
    elif isinstance(tree, bool):
        out += b"\xc3" if tree else b"\xc2"
    elif isinstance(tree, int):
        _write_int(tree, out, rng)
    elif isinstance(tree, float):
        out += struct.pack(">Bd", 0xCB, tree) if rng.random() < 0.8 else struct.pack(">Bf", 0xCA, _single(tree))
    elif isinstance(tree, str):
        _write_head(len(tree.encode("utf-8", "surrogatepass")), (0xD9, 0xDA, 0xDB), out, rng)
        out += tree.encode("utf-8", "surrogatepass")
    elif isinstance(tree, (bytes, bytearray)):
        # Now and then as an extension, which no message has.
        codes = (0xC4, 0xC5, 0xC6) if rng.random() < 0.95 else (0xC7, 0xC8, 0xC9)
        _write_head(len(tree), codes, out, rng)
        out += tree if codes[0] == 0xC4 else b"\x05" + tree
    elif isinstance(tree, dict):
        _write_head(len(tree) + rng.choice((0, 0, 0, 0, 0, 0, 0, 1)), (None, 0xDE, 0xDF), out, rng)
        for key, value in tree.items():
            _write(key, out, rng, depth + 1)
            _write(value, out, rng, depth + 1)
    elif isinstance(tree, (list, tuple)):
        _write_head(len(tree), (None, 0xDC, 0xDD), out, rng)
        for item in tree:
            _write(item, out, rng, depth + 1)
    else:  # a time or an extension
        out += b"\xc7\x01\x05x"


def _write_int(value: int, out: bytearray, rng: Random) -> None:
    forms = (
        *((0xCC, ">B", 0, 2**8), (0xCD, ">H", 0, 2**16), (0xCE, ">I", 0, 2**32), (0xCF, ">Q", 0, 2**64)),
        *((0xD0, ">b", -(2**7), 2**7), (0xD1, ">h", -(2**15), 2**15), (0xD2, ">i", -(2**31), 2**31)),
        (0xD3, ">q", -(2**63), 2**63),
    )
    fitting = [(code, form) for code, form, low, end in forms if low <= value < end]
    if not fitting:
        out += b"\xcf" + b"\xff" * 8
        return
    code, form = fitting[rng.randrange(len(fitting))]
    out.append(code)
    out += struct.pack(form, value)


def _write_head(size: int, codes: tuple[int | None, int, int], out: bytearray, rng: Random) -> None:
    """The length of what follows, in one of the widths that hold it; rarely a lie, with next to nothing behind."""
    if rng.random() < 0.01:
        size = rng.choice((size + 1, max(0, size - 1), 2**16 - 1, 2**31, 2**32 - 1))
    widths = [place for place, most in enumerate((2**8, 2**16, 2**32)) if size < most and codes[place] is not None]
    place = widths[rng.randrange(len(widths))]
    out.append(codes[place] or 0)
    out += struct.pack((">B", ">H", ">I")[place], size)


def _single(value: float) -> float:
    """As a float of 32 bits can hold it."""
    return value if abs(value) < 3e38 or value != value else 3e38  # noqa: PLR0124 - NaN alone differs from itself
