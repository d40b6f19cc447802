"""Changes to a value made of maps, lists, numbers and texts, such as MessagePack and JSON carry.

Pure. It knows values that programs trip over. It does not know how any of them is written.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar

Tree: TypeAlias = Any
T = TypeVar("T")

NUMBERS: tuple[int | float, ...] = (
    *(0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40),
    *(2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63), 0.0, -0.0, 0.5, 1.0, 1e-320, 1e308),
    *(float("inf"), float("-inf"), float("nan")),
)
TEXTS: tuple[str, ...] = (
    *("", " ", "a", "\0", "\n", "\r\n", ".", "*", ">", "..", "/", "\u202e", "\ufeff", "\ufffd", "é", "e\u0301"),
    *("\U0001f600", "null", "nan", "-1", "1e999", "{document}", "{query}", "{instruction}", "x" * 64, "x" * 65),
    *("x" * 4096, "x" * 4097, "hr.inbox.a.b", "$JS.API", "f32", "b1", "embed", "score", "internal", "\x1b[2J"),
)
_LETTERS = (0, 9, 10, 32, 46, 65, 97, 127, 255, 0x2028, 0xFFFF)
_DEEP = (2, 20, 200, 400, 490, 900, 950, 980, 985, 990, 995)


def changed(tree: Tree, rng: Random, leaf: Callable[[Tree, Random], Tree] | None = None) -> Tree:
    """The same with one change somewhere; what was given is left as it is.

    Args:
        tree: It.
        rng: Decides.
        leaf: Changes values that are no containers, such as bytes that hold something; None is `other_leaf`.
    """
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        return _changed_map(tree, rng, leaf)
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        return _changed_list(tree, rng, leaf)
    return (leaf or other_leaf)(tree, rng)


def _changed_map(tree: dict[Any, Tree], rng: Random, leaf: Callable[[Tree, Random], Tree] | None) -> Tree:
    found = dict(tree)
    key = _one(list(found), rng)
    chance = rng.random()
    if chance < 0.06:
        del found[key]
    elif chance < 0.10:
        found[other_text(str(key), rng)] = found.pop(key)
    elif chance < 0.14:
        found[_one(list(found), rng)] = found[key]
    elif chance < 0.16:
        found[other_text(str(key), rng)] = any_value(rng)
    else:
        found[key] = changed(found[key], rng, leaf)
    return found


def _changed_list(tree: list[Tree], rng: Random, leaf: Callable[[Tree, Random], Tree] | None) -> Tree:
    found = list(tree)
    place = rng.randrange(len(found))
    chance = rng.random()
    if chance < 0.1:
        del found[place]
    elif chance < 0.2:
        found.insert(place, found[place])
    elif chance < 0.22 and len(found) < 64:
        found *= rng.choice((2, 3, 16))
    else:
        found[place] = changed(found[place], rng, leaf)
    return found


def other_leaf(value: Tree, rng: Random) -> Tree:
    """Something like this value, or not at all."""
    if rng.random() < 0.12:
        return any_value(rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return other_number(value, rng)
    if isinstance(value, str):
        return other_text(value, rng)
    if isinstance(value, (bytes, bytearray)):
        return other_bytes(bytes(value), rng)
    return any_value(rng)


def other_number(value: float, rng: Random) -> int | float:
    """A number near this one, or one of those that are near a limit."""
    if rng.random() < 0.5:
        return _one(NUMBERS, rng)
    step = rng.choice((1, -1, 2, 8, 1000))
    return value + step if rng.random() < 0.7 else value * step


def other_text(value: str, rng: Random) -> str:
    """A text like this one, or one that programs trip over."""
    chance = rng.random()
    if chance < 0.35 or not value:
        return _one(TEXTS, rng)
    place = rng.randrange(len(value))
    if chance < 0.55:
        return value[:place] + _one(TEXTS, rng)[:80] + value[place:]
    if chance < 0.75:
        return value[:place] + value[place + 1 :]
    if chance < 0.85:
        return value[:place]
    if chance < 0.95:
        return value[:place] + chr(_one(_LETTERS, rng)) + value[place + 1 :]
    return value * rng.choice((2, 5))


def other_bytes(value: bytes, rng: Random) -> bytes:
    """Bytes like these."""
    if not value:
        return rng.randbytes(rng.choice((1, 3, 4, 8, 33)))
    found = bytearray(value)
    place = rng.randrange(len(found))
    chance = rng.random()
    if chance < 0.4:
        found[place] ^= 1 << rng.randrange(8)
    elif chance < 0.55:
        found[place] = rng.choice((0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xDF, 0xFF))
    elif chance < 0.7:
        del found[place : place + rng.choice((1, 2, 4, 8))]
    elif chance < 0.8:
        found[place:place] = rng.randbytes(rng.choice((1, 4)))
    elif chance < 0.9:
        del found[place:]
    else:
        found[place:place] = found[: rng.choice((4, 16, 64))]
    return bytes(found)


def any_value(rng: Random) -> Tree:
    """Anything."""
    kind = rng.randrange(9)
    if kind <= 1:
        return _one((None, True, False), rng)
    if kind <= 3:
        return _one(NUMBERS, rng)
    if kind <= 5:
        return _one(TEXTS, rng)
    if kind == 6:
        return [any_value(rng) for _ in range(rng.randrange(3))]
    return {_one(TEXTS, rng): any_value(rng) for _ in range(rng.randrange(3))} if kind == 7 else deep(rng)


def deep(rng: Random) -> Tree:
    """Lists or maps in each other, about as deep as Python lets anybody go."""
    tree: Tree = 0
    wrap: Callable[[Tree], Tree] = rng.choice((lambda inner: [inner], lambda inner: {"a": inner}))
    # Most are small, so that the deep ones leave room for other inputs.
    for _ in range(rng.choice(_DEEP) if rng.random() < 0.2 else rng.randrange(20)):
        tree = wrap(tree)
    return tree


def _one(values: Sequence[T], rng: Random) -> T:
    return values[rng.randrange(len(values))]
