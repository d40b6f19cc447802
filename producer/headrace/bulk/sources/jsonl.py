"""JSON lines: one object a line.

Knows fields and how large files are cut. Does not know compression or the length of lines: that is text_lines.py.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.sources.columns import Columns, IdKind, missing
from headrace.bulk.sources.corpus_file import CorpusFile, unreadable
from headrace.bulk.sources.file_source import Stretch
from headrace.bulk.sources.row_builder import in_rows, row
from headrace.bulk.sources.text_lines import LineTooLong, TextLines, compression
from headrace.bulk.sources.values import id_kind, to_id
from headrace.errors import SourceError

# Of a file that is not compressed: a larger one is several shards, so that several processes may read it.
SHARD_BYTES = 1 << 30

# Lines of a file that are looked at to see that the columns are there.
_LOOKED_AT = 1000

_Object: TypeAlias = Mapping[str, Any]


class Jsonl:
    """Files with one JSON object a line; blank lines are no rows."""

    def __init__(self, columns: Columns, *, shard_bytes: int = SHARD_BYTES) -> None:
        """Read these columns.

        Args:
            columns: names of fields; `a.b` is field b of an object a, unless a field has that name.
            shard_bytes: of a file that is not compressed: a larger one is cut, at line ends.
        """
        self._columns = columns
        self._shard_bytes = shard_bytes

    def stretches(self, files: Sequence[CorpusFile]) -> list[Stretch]:
        """See Format.stretches."""
        kind = self._look(files)
        return [stretch for file in files for stretch in self._cut(file, kind)]

    def read(self, stretch: Stretch, first: int) -> Iterator[Rows]:
        """See Format.read."""
        with TextLines(stretch.file, stretch.start, stretch.end) as lines:
            found = enumerate(_not_blank(lines))
            rows = (self._row(stretch, at, line, lines.number) for at, line in found if at >= first)
            yield from in_rows(rows, first)

    def _row(self, stretch: Stretch, at: int, line: bytes | LineTooLong, number: int) -> tuple[Id, str | Problem]:
        # Blank lines are no rows, so its position does not tell people where it is.
        found = _object(line, "the line" if stretch.start else f"line {number}")
        position = stretch.position(at)
        if isinstance(found, Problem):
            return self._id_of_bad(line, stretch.id_kind) or position, found
        named = position if self._columns.id is None else _field(found, self._columns.id)
        return row(position, named, _field(found, self._columns.text), stretch.id_kind)

    def _id_of_bad(self, line: bytes | LineTooLong, kind: IdKind | None) -> Id | None:
        """The id of a line that is no UTF-8, by which people find the row; None if it cannot be told."""
        if self._columns.id is None or isinstance(line, LineTooLong):
            return None
        found = _object(line.decode(errors="surrogateescape").encode("utf-8", "replace"))
        named = None if isinstance(found, Problem) else to_id(_field(found, self._columns.id), kind)
        return None if isinstance(named, Problem) or (isinstance(named, str) and "?" in named) else named

    def _cut(self, file: CorpusFile, kind: IdKind | None) -> Iterator[Stretch]:
        try:
            size = file.path.stat().st_size
        except OSError as error:
            raise unreadable(file, error) from error
        if size <= self._shard_bytes or compression(file) is not None:
            yield Stretch(file=file, name=file.name, numbered=file.name, id_kind=kind)
            return
        for number, start in enumerate(range(0, size, self._shard_bytes)):
            name = f"{file.name}#{number}"
            end = min(size, start + self._shard_bytes)
            yield Stretch(file=file, name=name, numbered=name, id_kind=kind, start=start, end=end)

    def _look(self, files: Sequence[CorpusFile]) -> IdKind | None:
        """See that the columns are there, and of what kind ids are: as the first that is good."""
        wanted = {name for name in (self._columns.text, self._columns.id) if name is not None}
        seen: dict[str, None] = {}
        kind: IdKind | None = None
        looked_at = None
        for file in files:
            for found in self._objects(file):
                looked_at = looked_at or file
                seen.update(dict.fromkeys(found))
                wanted -= {name for name in wanted if _has(found, name)}
                if kind is None and self._columns.id is not None:
                    named = to_id(_field(found, self._columns.id))
                    kind = None if isinstance(named, Problem) else id_kind(named)
                if not wanted and (kind or self._columns.id is None):
                    return kind
        if looked_at is not None and wanted:
            raise missing(self._columns, min(wanted), str(looked_at.path), list(seen))
        return kind

    def _objects(self, file: CorpusFile) -> Iterator[_Object]:
        with TextLines(file) as lines:
            for at, line in enumerate(islice(_not_blank(lines), _LOOKED_AT)):
                is_array = isinstance(line, bytes) and line.startswith(b"[")
                if at == 0 and is_array and ".json" in file.path.suffixes:
                    raise SourceError(f"{file.path} is a JSON array: write one object a line, with jq -c '.[]'")
                found = _object(line)
                if not isinstance(found, Problem):
                    yield found


def _not_blank(lines: TextLines) -> Iterator[bytes | LineTooLong]:
    while True:
        try:
            line = next(lines).strip()
        except StopIteration:
            return
        except LineTooLong as error:
            yield error
        else:
            if line:
                yield line


def _object(line: bytes | LineTooLong, where: str = "the line") -> _Object | Problem:
    if isinstance(line, LineTooLong):
        return Problem("unreadable", str(line))
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return Problem("invalid_utf8", f"byte {error.start} of {where} is {line[error.start]:#04x}: not UTF-8")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        return Problem("unreadable", f"{where} is not JSON: {error.msg} (character {error.pos + 1})")
    except (ValueError, RecursionError) as error:  # a number or nesting beyond what Python reads
        return Problem("unreadable", f"{where} is not JSON that can be read: {error}")
    if not isinstance(found, dict):
        return Problem("unreadable", f"{where} is a JSON {type(found).__name__}: an object is wanted")
    return found


def _field(found: _Object, name: str) -> Any:
    return _walk(found, name)[1]


def _has(found: _Object, name: str) -> bool:
    return _walk(found, name)[0]


def _walk(found: _Object, name: str) -> tuple[bool, Any]:
    if name in found:
        return True, found[name]
    value: Any = found
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value
