"""From one input to another, by what it is made of.

It knows that an input may be MessagePack, JSON, a block of headers, or none of them. It does not know messages: what
must stay together in one is for its target to say.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeAlias

from fuzz import jsonish, packing
from fuzz.trees import changed, other_bytes, other_leaf, other_text

Mutate: TypeAlias = Callable[[bytes, Random], bytes]
# Changes a value that was read, knowing more of it than `changed` does.
Refit: TypeAlias = Callable[[Any, Random], Any]

_HEADER = b"NATS/1.0"


def mutated_msgpack(data: bytes, rng: Random, refit: Refit | None = None) -> bytes:
    """Change a value in it, or its bytes where it is no MessagePack, or now and then all the same."""
    try:
        tree = packing.unpacked(data) if rng.random() < 0.9 else None
    except ValueError:
        tree = None
    if tree is None:
        return other_bytes(data, rng)
    return packing.packed(_changes(tree, rng, refit), rng)


def mutated_json(data: bytes, rng: Random, refit: Refit | None = None) -> bytes:
    """Change a value in it, or its bytes where it is no JSON, or now and then all the same."""
    try:
        tree = jsonish.parsed(data) if rng.random() < 0.92 else None
    except ValueError:
        tree = None
    if tree is None:
        return other_bytes(data, rng)
    return jsonish.written(_changes(tree, rng, refit), rng)


def mutated_parts(data: bytes, rng: Random, parts: Mapping[str, Mutate]) -> bytes:
    """Change one of several inputs that travel as a MessagePack map.

    Args:
        data: The map.
        rng: Decides.
        parts: How each is changed, by its key; others are changed as any value.
    """
    try:
        tree = packing.unpacked(data)
    except ValueError:
        tree = None
    if not isinstance(tree, dict) or not tree:
        return other_bytes(data, rng)
    found = dict(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        key = rng.choice(list(found))
        value, mutate = found[key], parts.get(key)
        found[key] = mutate(value, rng) if mutate and isinstance(value, bytes) else other_leaf(value, rng)
    # As everybody writes it: what is fuzzed is what is in it.
    return packing.packed(found)


def mutated_headers(data: bytes, rng: Random) -> bytes:
    """Change a line of a header block, as NATS has them."""
    if rng.random() < 0.15:
        return other_bytes(data, rng)
    first, *lines = data.split(b"\r\n")
    if not lines or rng.random() < 0.1:
        odd = (b" 503", b" 100 Idle Heartbeat", b" \xff\xff\xff", b"", b" 4", b"x", b" 404\xff")
        first = rng.choice((_HEADER + rng.choice(odd), other_bytes(first, rng)))
    elif len(lines) > 1:
        place = rng.randrange(len(lines))
        lines[place : place + 1] = _other_lines(lines[place], rng)
    return b"\r\n".join((first, *lines))


def _other_lines(line: bytes, rng: Random) -> list[bytes]:
    name, colon, value = line.partition(b":")
    chance = rng.random()
    if chance < 0.1:
        return []
    if chance < 0.2:
        return [line, line]
    if chance < 0.3:
        return [other_bytes(name, rng) + colon + value]
    text = value.strip().decode("utf-8", "replace")
    if chance < 0.9:
        return [name + b": " + other_text(text, rng).encode("utf-8", "surrogatepass")]
    return [name + colon + other_bytes(value, rng)]


def _changes(tree: Any, rng: Random, refit: Refit | None) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        is_refitted = refit is not None and rng.random() < 0.35
        tree = refit(tree, rng) if refit is not None and is_refitted else changed(tree, rng)
    return tree
