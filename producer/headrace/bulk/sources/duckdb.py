"""What a query of DuckDB gives, which reads files of many kinds, object stores and other databases.

Knows shards and positions: rows are ordered by id. Does not know types and connections: that is duckdb_query.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from headrace.bulk.rows import Rows
from headrace.bulk.source import Shard
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.duckdb_query import DuckdbQuery
from headrace.bulk.sources.row_builder import in_rows, row
from headrace.errors import InputError

# Rows that are fetched at a time: each may be a large document.
_FETCHED = 256

# A sum, unlike an exclusive or, changes with a row that is there twice.
_STATES = """
    SELECT shard, count(*), sum(md5_number_lower(
        concat(coalesce(id::VARCHAR, chr(1)), chr(2), coalesce(text::VARCHAR, chr(1)))))
    FROM corpus GROUP BY shard
"""
_ID_AT = "SELECT id FROM corpus WHERE shard = ? ORDER BY id NULLS LAST LIMIT 1 OFFSET ?"
_ALL = """
    SELECT id, text FROM corpus WHERE shard = ?
    ORDER BY id NULLS LAST, text NULLS LAST
"""
_FROM_ID = """
    SELECT id, text FROM corpus WHERE shard = ? AND (id >= ? OR id IS NULL)
    ORDER BY id NULLS LAST, text NULLS LAST
"""
_WITHOUT_ID = "SELECT id, text FROM corpus WHERE shard = ? AND id IS NULL ORDER BY text NULLS LAST"
_NONE = "SELECT id, text FROM corpus WHERE false"
_NUM_BEFORE_ID = "SELECT count(*) FROM corpus WHERE shard = ? AND id < ?"
_NUM_WITH_ID = "SELECT count(id) FROM corpus WHERE shard = ?"


class DuckdbSource:
    """The rows of a query, in the order of their ids; those without an id come last.

    All rows of a shard are sorted, on disk (TMPDIR) if they are many. A process that begins in the middle asks for the
    id at that position, and then for the rows from that id on.
    """

    def __init__(self, query: str, columns: Columns, *, shards: int = 1) -> None:
        """Read a query.

        Args:
            query: a SELECT; before it there may be other statements, such as LOAD, ATTACH or CREATE SECRET.
            columns: names in its result; an id is needed.
            shards: how many to cut it into, by a hash of the id, for as many processes. Each reads the whole query.

        Raises:
            InputError: there is no column of ids, or no SELECT.
        """
        if columns.id is None:
            raise InputError("a query gives its rows in any order: name the column that tells them apart (--id)")
        if shards < 1:
            raise InputError(f"shards is {shards}: at least 1 is needed")
        self._query = DuckdbQuery(query, columns.text, columns.id, num_shards=shards)
        self._num_shards = shards
        self._known: tuple[Shard, ...] = ()

    @property
    def name(self) -> str:
        """See Source.name: the SELECT, without what is run before it."""
        return f"duckdb:{self._query.select}"

    def shards(self) -> Sequence[Shard]:
        """See Source.shards. Reads all rows once, to tell whether they are the same as at another time."""
        if not self._known:
            with self._query.connected() as (connection, _):
                found = {shard: (count, state) for shard, count, state in connection.execute(_STATES).fetchall()}
            self._known = tuple(self._shard(shard, *found.get(shard, (0, 0))) for shard in range(self._num_shards))
        return self._known

    def read(self, shard: int, first: int) -> Iterator[Rows]:
        """See Source.read."""
        name = self._name(shard)
        with self._query.connected() as (connection, kind):
            found = _from(connection, shard, first)
            yield from in_rows(
                (
                    row(f"{name}:{at}", id_, text, kind)
                    for at, (id_, text) in enumerate(_fetched(found.rows), found.first)
                    if at >= first
                ),
                first,
            )

    def _shard(self, shard: int, count: int, state: int) -> Shard:
        return Shard(self._name(shard), f"{count}-{state:x}", count)

    def _name(self, shard: int) -> str:
        return "query" if self._num_shards == 1 else f"query#{shard}"


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of a shard, of which the first is at position `first`."""

    rows: duckdb.DuckDBPyConnection
    first: int


def _from(connection: duckdb.DuckDBPyConnection, shard: int, first: int) -> _Found:
    """Ask for the rows of a shard from position `first` on; rows of the same id before it may come along."""
    if first == 0:
        return _Found(connection.execute(_ALL, [shard]), 0)
    # Ids are far shorter than texts: to sort them alone is cheaper than to sort the texts that will be skipped.
    at = connection.execute(_ID_AT, [shard, first]).fetchone()
    if at is None:
        return _Found(connection.execute(_NONE), first)
    if at[0] is None:
        before = _count(connection, _NUM_WITH_ID, [shard])
        return _Found(connection.execute(_WITHOUT_ID, [shard]), before)
    before = _count(connection, _NUM_BEFORE_ID, [shard, at[0]])
    return _Found(connection.execute(_FROM_ID, [shard, at[0]]), before)


def _count(connection: duckdb.DuckDBPyConnection, query: str, values: list[object]) -> int:
    counted = connection.execute(query, values).fetchone()
    return int(counted[0]) if counted else 0


def _fetched(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[object, object]]:
    while rows := result.fetchmany(_FETCHED):
        yield from rows
