"""The table of a sink in Postgres: its name, its columns, and the card in its comment.

Knows SQL that defines and describes the table, one statement or few a method, in the caller's transaction. Does not
know how rows get in or out.
"""

from dataclasses import dataclass

from psycopg import Connection, sql

from headrace.bulk.card import Card
from headrace.bulk.sinks.postgres_ids import IdType
from headrace.errors import SinkRefused

_MARK = "headrace card: "
_MAX_NAME = 63  # bytes; Postgres cuts longer ones off without an error
_OTHERS = "was not made by a bulk job, so it is left alone: name another table, or drop this one yourself"


@dataclass(frozen=True, slots=True)
class Columns:
    """What a table was made to hold so far.

    Attributes:
        id_type: of the ids.
        has_text: whether texts lie beside the vectors.
    """

    id_type: IdType
    has_text: bool


class Table:
    """A table by its name; whether it is there or not.

    Attributes:
        name: as it was given.
        identifier: the same for SQL.
        where: it is, for errors.
    """

    def __init__(self, name: str, where: str) -> None:
        """Take the name apart.

        Args:
            name: `table` or `schema.table`, as they are: case counts, and nothing needs quotes.
            where: of the database, for errors.

        Raises:
            SinkError: it cannot be a table's.
        """
        parts = name.split(".")
        if (
            len(parts) > 2
            or not all(0 < len(part.encode(errors="replace")) <= _MAX_NAME for part in parts)
            or "\0" in name
        ):
            text = f"{name!r:.100} cannot be a table: write table or schema.table, each of 1 to {_MAX_NAME} bytes"
            raise SinkRefused(text)
        self.name = name
        self.identifier = sql.Identifier(*parts)
        self.where = f"table {name} of {where}"

    def card(self, connection: Connection) -> Card | None:
        """The card of what it holds; None if there is no such table.

        Raises:
            SinkError: it is no table of ours.
        """
        found = connection.execute(
            "SELECT relkind, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)",
            [self.identifier.as_string(connection)],
        ).fetchone()
        if found is None:
            return None
        kind, comment = found
        if kind not in {"r", "p"} or comment is None or not comment.startswith(_MARK):
            raise SinkRefused(f"{self.where} {_OTHERS}")
        return Card.from_json(comment.removeprefix(_MARK))

    def create(self, connection: Connection, card: Card, column: str) -> None:
        """Make it, for vectors in a column of the type `column`. What its ids are is left to the first of them."""
        connection.execute(
            sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY, hash bytea NOT NULL, embedding {} NOT NULL)").format(
                self.identifier, sql.SQL(column)
            )
        )
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(self.identifier, _MARK + card.to_json()))

    def drop(self, connection: Connection) -> None:
        """Drop it, with what it holds."""
        connection.execute(sql.SQL("DROP TABLE {}").format(self.identifier))

    def columns(self, connection: Connection) -> Columns:
        """What it was made to hold so far.

        Raises:
            SinkError: somebody has altered it so that it cannot be told.
        """
        types: dict[str, str] = dict(
            connection.execute(
                "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
                "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                [self.identifier.as_string(connection)],
            ).fetchall()
        )
        match types.get("id"):
            case "bigint" | "text" as id_type:
                return Columns(id_type, "text" in types)
            case other:
                raise SinkRefused(
                    f"{self.where} has a column id of the type {other}, not bigint or text: drop the table"
                )

    def lock(self, connection: Connection, *, whole: bool) -> None:
        """Let nobody drop or alter it until the transaction ends, or, of the whole, nobody use it."""
        mode = "ACCESS EXCLUSIVE" if whole else "ROW EXCLUSIVE"
        connection.execute(sql.SQL("LOCK TABLE {} IN {} MODE").format(self.identifier, sql.SQL(mode)))

    def is_empty(self, connection: Connection) -> bool:
        """Whether it holds no row."""
        rows = connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(self.identifier))
        return rows.fetchone() is None

    def alter(self, connection: Connection, wanted: Columns) -> None:
        """Have it hold what is wanted; it must be empty if that is another type of ids, and locked as a whole."""
        # The collation of bytes: the fastest, and the same on every system.
        kind = sql.SQL('text COLLATE "C"' if wanted.id_type == "text" else "bigint")
        connection.execute(
            sql.SQL("ALTER TABLE {} ALTER COLUMN id TYPE {} USING id::text::{}").format(self.identifier, kind, kind)
        )
        if wanted.has_text:
            connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS text text").format(self.identifier))
