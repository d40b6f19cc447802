"""A table of LanceDB as a sink.

Knows how rows replace those of the same id, and what makes them last. Does not know jobs, nor indexes for vectors:
whoever searches makes one when the job is done.
"""

import errno
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from headrace_contracts.messages import numpy_dtype, row_elements
from lancedb.index import BTree

from headrace.bulk.card import Card
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Stored
from headrace.bulk.sinks.folder import Folder, IdKind, of_kind
from headrace.bulk.whole_file import refusal, sync_folder
from headrace.errors import SinkError, SinkRefused

_CARD = b"headrace.card"
_TABLE = re.compile(r"[A-Za-z0-9_.-]+")
# Rows without an index to look through, and small files, until they are indexed and joined: as many as LanceDB joins to
# one file, so that it writes each row twice and not again and again.
_ROWS_TO_TIDY = 1 << 20
# How long files of old versions stay, for those who read them.
_OLD = timedelta(hours=1)
# Of a query: SQL grows by what it asks for.
_MAX_IDS, _MAX_CHARACTERS = 2048, 1_000_000
# Bytes; those that LanceDB takes by itself are gigabytes.
_INDEX_CACHE, _METADATA_CACHE = 256 << 20, 64 << 20
# Clocks of two machines with one file system may differ.
_SKEW_NS = 60_000_000_000


class LanceSink:
    """Vectors in a table of LanceDB: columns id (int64 or string), hash, vector (fixed-size list), text where kept.

    The card is under headrace.card in the metadata of the schema. An index of ids keeps lookups short.
    """

    def __init__(self, path: Path, table: str) -> None:
        """Touch nothing yet.

        Args:
            path: folder of the database.
            table: name in it.

        Raises:
            SinkError: LanceDB takes no such name.
        """
        if not _TABLE.fullmatch(table):
            text = f"table {table!r}: a name has letters, digits, underscores, hyphens and full stops alone: rename it"
            raise SinkError(text)
        # A database may have several tables, and a job for each.
        self._folder = Folder(path, path / "_headrace" / table)
        self._files = path / f"{table}.lance"
        self._name = table
        self._database: Any = None
        self._table: Any = None
        self._card: Card | None = None
        self._untidy_rows = 0

    @property
    def name(self) -> str:
        """What people call it."""
        return f"lance:{self._folder.path.resolve()}#{self._name}"

    @property
    def is_one_corpus(self) -> bool:
        """It is not: rows stay until somebody deletes them."""
        return False

    @property
    def place(self) -> Path:
        """A folder for what the job keeps beside the vectors."""
        return self._folder.place

    def open(self, card: Card, *, replace: bool) -> None:
        """Make the database, or see that what is there goes with `card`; see Sink.open."""
        with self._told():
            caches = lancedb.Session(index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE)
            # Zero: each call sees what other processes have written.
            self._database = lancedb.connect(self._folder.path, read_consistency_interval=timedelta(0), session=caches)
        self._folder.open(card, replace=replace, found=self._card_of_table, empty=self._drop)
        self._card = card

    def write(self, part: Part) -> None:
        """Keep the rows of a part that are new, in place of those with their ids; see Sink.write.

        Two writers of the same ids at once would both add them, so processes of a machine take turns.
        """
        fresh = np.flatnonzero(part.fresh).tolist()
        if not fresh:
            return
        ids = [part.ids[row] for row in fresh]
        self._folder.check(self._opened())
        kind = self._folder.id_kind(ids, self._kind_of_table)
        with self._folder.alone(), self._told():
            since_ns = time.time_ns() - _SKEW_NS
            table = self._made(kind, has_texts=part.texts is not None)
            rows = _rows(part, fresh, table.schema, str(self._files))
            table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
            self._untidy_rows += len(fresh)
            if self._untidy_rows >= _ROWS_TO_TIDY:
                self._tidy(table)
            _sync(self._files, since_ns)

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What is there of these ids; see Sink.lookup."""
        kind = self._folder.id_kind((), self._kind_of_table)
        table = self._there()
        if kind is None or table is None:
            return {}
        found: dict[Id, Stored] = {}
        with self._told():
            for condition in _conditions(of_kind(ids, kind)):
                query = table.search().where(condition).select(["id", "hash", "vector"]).limit(None)
                found |= _stored(query.to_arrow())
        return found

    def count(self) -> int:
        """Rows of the table; see Sink.count."""
        table = self._there()
        if table is None:
            return 0
        with self._told():
            return int(table.count_rows())

    def finish(self, parts: Collection[str]) -> None:  # noqa: ARG002 - of the protocol; rows do not know their part
        """Join small files, index ids, drop old versions; see Sink.finish."""
        table = self._there()
        if table is not None:
            with self._folder.alone(), self._told():
                since_ns = time.time_ns() - _SKEW_NS
                self._tidy(table)
                _sync(self._files, since_ns)
        self._folder.sweep()

    def close(self) -> None:
        """Let go of it."""
        self._table = self._database = None

    def _made(self, kind: IdKind | None, *, has_texts: bool) -> Any:
        table = self._there()
        if table is None:
            card = self._opened()
            schema = _schema(card, kind, has_texts=has_texts)
            table = self._table = self._database.create_table(self._name, schema=schema, exist_ok=True)
        return table

    def _there(self) -> Any:
        """The table; None if nothing was written yet."""
        self._opened()
        return self._found()

    def _found(self) -> Any:
        # Without one, a crash has left a table that was not made yet.
        if self._table is None and any(self._files.glob("_versions/*.manifest")):
            with self._told():
                self._table = self._database.open_table(self._name)
        return self._table

    def _tidy(self, table: Any) -> None:
        if not any(index.columns == ["id"] for index in table.list_indices()):
            table.create_index("id", config=BTree())
        table.optimize(cleanup_older_than=_OLD)
        self._untidy_rows = 0

    def _opened(self) -> Card:
        if self._card is None:
            raise SinkError(f"{self._files}: open it with a card first")
        return self._card

    def _drop(self) -> None:
        with self._told():
            self._table = None
            self._database.drop_table(self._name, ignore_missing=True)

    def _card_of_table(self) -> Card | None:
        table = self._found()
        if table is None:
            return None
        written = (table.schema.metadata or {}).get(_CARD)
        if written is None:
            raise SinkError(f"{self._files} is no table of a bulk job: name another one after the #")
        return Card.from_json(written)

    def _kind_of_table(self) -> IdKind | None:
        table = self._found()
        return None if table is None else "int64" if table.schema.field("id").type == pa.int64() else "string"

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise refusal(self._files, _with_number(error)) from error
        except (RuntimeError, ValueError, pa.ArrowException) as error:
            if (number := _number(str(error))) is not None:
                raise refusal(self._files, OSError(number, os.strerror(number))) from error
            raise SinkError(f"{self._files}: {error}") from error


def _schema(card: Card, kind: IdKind | None, *, has_texts: bool) -> Any:
    element = pa.from_numpy_dtype(numpy_dtype(card.dtype))
    fields = [
        pa.field("id", pa.int64() if kind == "int64" else pa.string(), nullable=False),
        pa.field("hash", pa.binary(16), nullable=False),
        pa.field("vector", pa.list_(element, row_elements(card.dtype, card.dim)), nullable=False),
        *([pa.field("text", pa.string())] if has_texts else []),
    ]
    return pa.schema(fields, metadata={_CARD: card.to_json().encode()})


def _rows(part: Part, rows: Sequence[int], schema: Any, where: str) -> Any:
    if part.texts is not None and "text" not in schema.names:
        raise SinkRefused(f"{where} has no column for texts: do not keep them, or choose another sink")
    vectors = pa.array(np.ascontiguousarray(part.vectors[rows]).reshape(-1))
    columns = {
        "id": [part.ids[row] for row in rows],
        "hash": [part.hashes[row] for row in rows],
        "vector": pa.FixedSizeListArray.from_arrays(vectors, type=schema.field("vector").type),
        "text": [None if part.texts is None else part.texts[row] for row in rows],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _conditions(ids: Sequence[Id]) -> Iterator[str]:
    """SQL that asks for these ids, some at a time."""
    asked: list[str] = []
    num_characters = 0
    for one in ids:
        literal = _literal(one)
        if asked and (len(asked) == _MAX_IDS or num_characters + len(literal) > _MAX_CHARACTERS):
            yield f"id IN ({','.join(asked)})"
            asked, num_characters = [], 0
        asked.append(literal)
        num_characters += len(literal)
    if asked:
        yield f"id IN ({','.join(asked)})"


def _literal(one: Id) -> str:
    if isinstance(one, str):
        return "'" + one.replace("'", "''") + "'"
    # SQL reads a minus and a number, and the number alone would be too large by one.
    return str(one) if one > -(2**63) else f"({one + 1} - 1)"


def _stored(table: Any) -> dict[Id, Stored]:
    table = table.combine_chunks()
    if not len(table):
        return {}
    vectors = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1)
    rows = zip(table.column("id").to_pylist(), table.column("hash").to_pylist(), vectors, strict=True)
    return {one: Stored(hash_, vector) for one, hash_, vector in rows}


def _sync(folder: Path, since_ns: int) -> None:
    """Have the files that were written since then on the disk, which LanceDB leaves to the system."""
    for parent, _, names in os.walk(folder):
        if os.stat(parent).st_mtime_ns < since_ns:  # noqa: PTH116 - a path for each of many files would cost more
            continue
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - as above
            if os.stat(path).st_mtime_ns >= since_ns:  # noqa: PTH116 - as above
                with open(path, "rb") as file:  # noqa: PTH123 - as above
                    os.fsync(file.fileno())
        sync_folder(Path(parent))
    sync_folder(folder.parent)


def _number(text: str) -> int | None:
    found = re.search(r"os error (\d+)", text)
    return int(found[1]) if found else errno.ENOSPC if "No space left" in text else None


def _with_number(error: OSError) -> OSError:
    number = error.errno or _number(str(error))
    return OSError(number, os.strerror(number)) if number else error
