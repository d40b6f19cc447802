"""A query of DuckDB, as rows of an id and a text.

Knows SQL, its types, and what a connection needs. Does not know shards or positions: that is duckdb.py.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb

from headrace.bulk.sources.columns import Columns, IdKind, missing
from headrace.errors import InputError, SourceError

# Of the database, which sorts on disk what is more. The query may set another one before its SELECT.
_MEMORY = "2GB"

_TEXTS = ("VARCHAR", "JSON", "BLOB", "ENUM", '"NULL"')
_STRINGS = ("VARCHAR", "BLOB", "ENUM", "UUID")
_INTEGERS = frozenset(
    sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)

# As in postgresql://user:secret@host and in password=secret, which DuckDB quotes when it cannot connect.
_PASSWORD = re.compile(r"(://[^:/@\s]*:|(?:password|secret|token|key)\w*\s*[=:]\s*)[^@\s,;)]+", re.IGNORECASE)


class DuckdbQuery:
    """A SELECT, and the statements that make it possible."""

    def __init__(self, query: str, text: str, id_column: str, *, num_shards: int) -> None:
        """Take it apart.

        Args:
            query: the statements, of which the last is a SELECT.
            text: the column with the texts.
            id_column: the one with the ids.
            num_shards: how many shards ids are spread over.

        Raises:
            InputError: it is no such query.
        """
        try:
            statements = duckdb.extract_statements(query)
        except duckdb.Error as error:
            raise InputError(f"the query is no SQL to DuckDB: {_without_passwords(str(error))}") from None
        if not statements or statements[-1].type != duckdb.StatementType.SELECT:
            raise InputError("the query does not end in a SELECT: write duckdb:SELECT id, text FROM ...")
        self._before = [statement.query for statement in statements[:-1]]
        self._select = statements[-1].query
        self._columns = Columns(text, id_column)
        self._id = id_column
        self._num_shards = num_shards

    @property
    def select(self) -> str:
        """The SELECT, for people: without passwords."""
        return _without_passwords(self._select.strip())

    @contextmanager
    def connected(self) -> Iterator[tuple[duckdb.DuckDBPyConnection, IdKind]]:
        """A database that has the rows in a view `corpus` of shard, id and text; and what ids are.

        Raises:
            SourceError: DuckDB refuses something, or a column is not there or of a type that cannot be one.
        """
        # By itself it would sort beside whatever the working directory holds.
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            config: dict[str, str | bool | int | float | list[str]] = {
                "temp_directory": folder,
                "memory_limit": _MEMORY,
            }
            try:
                with duckdb.connect(":memory:", config=config) as connection:
                    for statement in self._before:
                        connection.execute(statement)
                    yield connection, self._view(connection)
            except duckdb.Error as error:
                raise SourceError(f"DuckDB cannot run the query: {_without_passwords(str(error))}") from None

    def _view(self, connection: duckdb.DuckDBPyConnection) -> IdKind:
        # A view of its own, because what ends in a comment cannot be put in brackets.
        connection.execute(f"CREATE TEMP VIEW given AS {self._select}")
        described = connection.execute("DESCRIBE given").fetchall()
        types = {name: kind for name, kind, *_ in described}
        for name in (self._columns.text, self._id):
            if name not in types:
                raise missing(self._columns, name, "the query", list(types))
        kind_of_text = types[self._columns.text]
        if not kind_of_text.startswith(_TEXTS):
            raise SourceError(
                f"column {self._columns.text!r} of the query is of type {kind_of_text}: CAST it to VARCHAR"
            )
        kind = _id_kind(self._id, types[self._id])
        # MD5, because it is the same in all versions, which DuckDB's own hash is not.
        shard = "0" if self._num_shards == 1 else f"coalesce(md5_number_lower(id::VARCHAR), 0) % {self._num_shards}"
        id_, text = self._ordered(types), _quoted(self._columns.text)
        rows = f"(SELECT {id_} AS id, {text} AS text FROM given)"  # noqa: S608 - names of columns, in quotes
        connection.execute(f"CREATE TEMP VIEW corpus AS SELECT {shard} AS shard, id, text FROM {rows}")  # noqa: S608
        return kind

    def _ordered(self, types: Mapping[str, str]) -> str:
        # An enumeration is ordered as it was declared, until it is a string.
        cast = "::VARCHAR" if types[self._id].startswith(("ENUM", "UUID")) else ""
        return _quoted(self._id) + cast


def _id_kind(name: str, kind: str) -> IdKind:
    if kind.startswith(_STRINGS):
        return "str"
    if kind in _INTEGERS or (kind.startswith("DECIMAL") and kind.endswith(",0)")):
        return "int"
    raise SourceError(f"column {name!r} of the query is of type {kind}: ids are integers or strings; CAST it")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _without_passwords(text: str) -> str:
    return _PASSWORD.sub(r"\1***", text)
