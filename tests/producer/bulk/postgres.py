"""What tests do to a database behind a sink's back."""

from dataclasses import dataclass
from typing import Any

import psycopg


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
