"""A table of Postgres, with pgvector, as a sink.

    CREATE TABLE <table> (
        id         bigint or text PRIMARY KEY,   -- as the first ids are
        hash       bytea,                        -- 16 bytes, of the text
        embedding  vector(dim)                   -- halfvec(dim) for float16 and int8, bit(dim) for bits
        text       text                          -- where the job keeps texts
    )

A part is one transaction: all of it is there, or nothing. The card is the table's comment, which goes where the table
goes.

No index on the vectors is made here: filling an indexed table is many times slower. Once the job is done:

    CREATE INDEX ON <table> USING hnsw (embedding vector_ip_ops);   -- vectors of length one

with vector_cosine_ops for others, and bit_hamming_ops for bits. pgvector indexes a vector of up to 2,000 dimensions and
a halfvec of up to 4,000; more of them by an expression, such as ((embedding::halfvec(3072)) halfvec_ip_ops).

Knows rows. Does not know connections (postgres_server.py), definitions (postgres_table.py), or how a vector lies in its
column (postgres_vector.py).
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from psycopg import Connection, sql

from headrace.bulk.card import Card
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Stored
from headrace.bulk.sinks.postgres_ids import possible, shown, type_of
from headrace.bulk.sinks.postgres_server import Server
from headrace.bulk.sinks.postgres_table import Columns, Table
from headrace.bulk.sinks.postgres_vector import Element, to_column, to_row
from headrace.bulk.sinks.postgres_vector import type_name as vector_type_name
from headrace.bulk.sinks.postgres_vector import type_of as vector_type
from headrace.errors import CardMismatch, SinkError, SinkRefused


class PostgresSink:
    """Vectors in a table. Many processes may write to it at once."""

    def __init__(self, url: str, table: str) -> None:
        """Nothing is connected before `open`.

        Args:
            url: of libpq, such as postgresql://user:password@host:5432/database.
            table: `table` or `schema.table`, as they are: case counts, and nothing needs quotes. It is made if absent.

        Raises:
            SinkError: the URL or the name cannot be read.
        """
        self._server = Server(url)
        self._table = Table(table, self._server.where)
        self._opened: Card | None = None

    @property
    def name(self) -> str:
        """What people call it: the URL without user and password, and the table."""
        return f"{self._server.url}#{self._table.name}"

    @property
    def is_one_corpus(self) -> bool:
        """It is not: rows stay until somebody deletes them."""
        return False

    @property
    def place(self) -> Path | None:
        """None: a table is no folder."""
        return None

    def open(self, card: Card, *, replace: bool) -> None:
        """Make the table, or see that it goes with the card: see Sink.open.

        Raises:
            CardMismatch: it holds vectors of another card, and `replace` is false.
            SinkError: it is another program's, whether to be replaced or not; or the server cannot be reached.
        """
        column = vector_type(card)
        with self._server.transaction() as connection:
            self._server.alone(connection)
            there = self._table.card(connection)
            if there is not None:
                try:
                    card.check(there, self._table.where)
                except CardMismatch:
                    if not replace:
                        raise
                    self._table.drop(connection)
                    there = None
            if there is None:
                self._table.create(connection, card, column)
        self._opened = card

    def write(self, part: Part) -> None:
        """Keep the fresh rows of a part, in one transaction: see Sink.write.

        A NUL character in a text that is kept becomes U+FFFD: Postgres has no place for it.

        Raises:
            SinkError: it could not be kept, or an id cannot be a key.
        """
        rows = part.fresh.nonzero()[0].tolist()
        if not rows:
            return
        ids = [part.ids[row] for row in rows]
        wanted = Columns(type_of(ids), part.texts is not None)
        with self._server.transaction() as connection:
            card, columns = self._locked(connection, wanted, ids[0])
            names = ["id", "hash", "embedding", *(["text"] if columns.has_text else [])]
            types = [columns.id_type, "bytea", vector_type_name(card), *(["text"] if columns.has_text else [])]
            self._stage(connection, names)
            with connection.cursor().copy(_COPY.format(_list(names))) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(_row(part, row, card)[: len(names)])
            self._merge(connection, names)

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What is there of these ids; those that the table cannot hold are not: see Sink.lookup.

        Raises:
            SinkError: it cannot be read.
        """
        with self._server.transaction() as connection:
            card = self._checked(connection)
            kind = self._table.columns(connection).id_type
            asked = possible(ids, kind)
            if not asked:
                return {}
            # The ids lie in the statement, for with parameters a table could have no % in its name.
            query = sql.SQL("SELECT id, hash, embedding FROM {} WHERE id = ANY({}::{}[])").format(
                self._table.identifier, asked, sql.SQL(kind)
            )
            found = connection.cursor(binary=True).execute(query)
            return {each: Stored(hash_, to_row(element, card)) for each, hash_, element in found}

    def count(self) -> int:
        """Rows that are there.

        Raises:
            SinkError: it cannot be read.
        """
        with self._server.transaction() as connection:
            self._checked(connection)
            counted = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(self._table.identifier)).fetchone()
        return 0 if counted is None else int(counted[0])

    def finish(self, parts: Collection[str]) -> None:
        """Nothing is left to do: a part is whole once it is written, and rows have no part."""

    def close(self) -> None:
        """Let go of the connection."""
        self._server.close()

    def _checked(self, connection: Connection) -> Card:
        """The card of this job, if the table still has it."""
        if self._opened is None:
            raise SinkError(f"{self._table.where} was not opened: call open() first")
        there = self._table.card(connection)
        if there is None:
            raise SinkError(f"{self._table.where} was dropped since it was opened: run the same command again")
        self._opened.check(there, self._table.where)
        return self._opened

    def _locked(self, connection: Connection, wanted: Columns, first: Id) -> tuple[Card, Columns]:
        """Lock the table, with columns for what is wanted."""
        self._checked(connection)  # before the lock, which would say of a dropped table what the server says
        fits = _fits(self._table.columns(connection), wanted)
        self._table.lock(connection, whole=not fits)
        card = self._checked(connection)
        columns = self._table.columns(connection)
        if not _fits(columns, wanted):
            if columns.id_type != wanted.id_type and not self._table.is_empty(connection):
                text = (
                    f"{self._table.where} has ids of the type {columns.id_type}, and id {shown(first)} is none: give "
                    "the corpus ids of that type, or name another table"
                )
                raise SinkRefused(text)
            self._table.alter(connection, wanted)
        return card, self._table.columns(connection)

    def _stage(self, connection: Connection, names: Sequence[str]) -> None:
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE headrace_part ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                _list(names), self._table.identifier
            )
        )

    def _merge(self, connection: Connection, names: Sequence[str]) -> None:
        setting = sql.SQL(", ").join(
            sql.SQL("{} = EXCLUDED.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in names[1:]
        )
        # In order of ids, so that two processes with some in common wait for each other and never both.
        connection.execute(
            sql.SQL(
                "INSERT INTO {} ({}) SELECT {} FROM pg_temp.headrace_part ORDER BY id ON CONFLICT (id) DO UPDATE SET {}"
            ).format(self._table.identifier, _list(names), _list(names), setting)
        )


_COPY = sql.SQL("COPY pg_temp.headrace_part ({}) FROM STDIN (FORMAT BINARY)")


def _row(part: Part, row: int, card: Card) -> tuple[Id, bytes, Element, str | None]:
    text = None if part.texts is None else _storable(part.texts[row])
    return part.ids[row], part.hashes[row], to_column(part.vectors[row], card), text


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _fits(columns: Columns, wanted: Columns) -> bool:
    return columns.id_type == wanted.id_type and columns.has_text >= wanted.has_text


def _list(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
