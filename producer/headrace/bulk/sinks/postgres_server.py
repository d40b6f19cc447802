"""A Postgres server with pgvector, as a sink reaches it: connected when it is needed, and again once that is lost.

Knows connections, the extension, and what errors of the server mean to people. Does not know tables or vectors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
from pgvector.psycopg import register_vector
from psycopg import errors, pq, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types import TypeInfo

from headrace.errors import SinkError

# What a URL may set otherwise: a server that is gone without a word is noticed in about a minute, by whatever waits.
_PARAMETERS: dict[str, Any] = {
    "application_name": "headrace",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_LOCK_TIMEOUT = "60s"
# Whoever makes or alters what several processes may make at once holds this lock of the database.
_MAKING = int.from_bytes(b"headrace")

_ADVICE: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.LockNotAvailable, f"another transaction has locked the table for over {_LOCK_TIMEOUT}: see pg_locks"),
    (errors.InvalidSchemaName, "make the schema first, or name another (CREATE SCHEMA …)"),
    (errors.InsufficientPrivilege, "grant the user what it lacks, or name another in the URL"),
    (errors.DiskFull, "make room on the server, then run the same command again"),
    (errors.ReadOnlySqlTransaction, "the server takes no writes: name the primary in the URL"),
    (psycopg.OperationalError, "see that the server runs and that the URL is right, then run the same command again"),
)


class Server:
    """One connection to a database, made at the first transaction and whenever the last was lost.

    Attributes:
        url: of the database, without user and password.
        where: it is, for errors.
    """

    def __init__(self, url: str) -> None:
        """Read the URL; nothing is connected yet.

        Args:
            url: of libpq, such as postgresql://user:password@host:5432/database; what it leaves out comes from the
                environment (PGPASSWORD and the like).

        Raises:
            SinkError: it is none. The text leaves the URL out, which may hold a password.
        """
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            text = (
                "the URL of Postgres cannot be read: write postgresql://user:password@host:5432/database, with special "
                "characters of the password percent-encoded"
            )
            raise SinkError(text) from None  # the error quotes the URL
        self._parameters = _PARAMETERS | given
        known = _defaults() | given
        host = known.get("host") or known.get("hostaddr") or "localhost"
        database = known.get("dbname") or known.get("user") or ""
        service = f"?service={known['service']}" if known.get("service") else ""
        # A host may be the folder of a socket.
        self.url = f"postgresql://{quote(host, safe='[]:')}:{known.get('port')}/{quote(database)}{service}"
        self.where = f"Postgres (host={host} port={known.get('port')} dbname={database})"
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """A transaction: kept if the block ends well, else as if it had not been.

        Raises:
            SinkError: the server could not do it. If the connection was lost, the next transaction makes a new one.
        """
        try:
            connection = self._connected()
            with connection.transaction():
                connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_TIMEOUT))
                # A database may be told to forget what it has acknowledged; a sink must not.
                connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', true) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
                yield connection
        except psycopg.Error as error:
            raise SinkError(f"{self.where}: {_said(error)}") from error

    def alone(self, connection: psycopg.Connection) -> None:
        """Wait until no other process makes or alters tables of bulk jobs; holds until the transaction ends."""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING])

    def close(self) -> None:
        """Let go of the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self.close()
            # Poolers between us and the server keep no prepared statements.
            connection = psycopg.connect(**self._parameters, autocommit=True, prepare_threshold=None)
            try:
                self._find_extension(connection)
                register_vector(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _find_extension(self, connection: psycopg.Connection) -> None:
        schema = _schema_of_extension(connection)
        if schema is None:
            self._make_extension(connection)
            schema = _schema_of_extension(connection)
        if schema is not None and TypeInfo.fetch(connection, "vector") is None:
            # Last, so that it changes the meaning of no name.
            connection.execute(
                "SELECT set_config('search_path', "
                "concat_ws(', ', nullif(current_setting('search_path'), ''), %s::text), false)",
                [sql.Identifier(schema).as_string(connection)],
            )

    def _make_extension(self, connection: psycopg.Connection) -> None:
        try:
            with connection.transaction():
                self.alone(connection)
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (errors.InsufficientPrivilege, errors.UndefinedFile, errors.FeatureNotSupported) as error:
            text = (
                f"{self.where}: the database has no extension pgvector, and it cannot be made ({_first_line(error)}): "
                "install pgvector on the server, then run CREATE EXTENSION vector in this database as its owner"
            )
            raise SinkError(text) from error


def _defaults() -> dict[str, Any]:
    """What libpq takes for what a URL leaves out, from the environment among others."""
    found = pq.Conninfo.get_defaults()
    return {option.keyword.decode(): option.val.decode() for option in found if option.val is not None}


def _schema_of_extension(connection: psycopg.Connection) -> str | None:
    found = connection.execute(
        "SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"
    ).fetchone()
    return None if found is None else str(found[0])


def _said(error: psycopg.Error) -> str:
    advice = next((f"; {advice}" for kind, advice in _ADVICE if isinstance(error, kind)), "")
    return f"{_first_line(error)}{advice}"


def _first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
