"""Small corpora of every kind, and what is read of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from headrace.bulk.rows import Id, Problem
from headrace.bulk.source import MAX_ROWS, Source

Row: TypeAlias = tuple[Id, str | Problem]


def rows(source: Source, shard: int = 0, first: int = 0) -> list[Row]:
    """All rows of a shard from a position on; their positions follow one another."""
    found: list[Row] = []
    for part in source.read(shard, first):
        assert part.first == first + len(found)
        assert 0 < len(part) <= MAX_ROWS
        assert len(part.ids) == len(part.texts)
        found += zip(part.ids, part.texts, strict=True)
    return found


def all_rows(source: Source) -> list[Row]:
    """All rows of all shards."""
    return [row for shard in range(len(source.shards())) for row in rows(source, shard)]


def codes(found: Sequence[Row]) -> list[str | None]:
    """The code of each problem; None where there is a text."""
    return [text.code if isinstance(text, Problem) else None for _, text in found]


def lines(*objects: object) -> bytes:
    """JSON lines."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


def strings(*values: bytes | None) -> pa.Array:
    """A column that calls itself one of strings, of bytes that need not be UTF-8."""
    of_bytes = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), of_bytes.buffers())


def written(path: Path, content: bytes) -> Path:
    """A file of that content, in folders as they are needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
