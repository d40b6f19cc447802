"""A real Postgres with pgvector, a database of it for each test, and Qdrant over HTTP."""

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from . import qdrant_rest
from .postgres import Database, serving

_NUMBERS = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a server's first database."""
    with serving() as url:
        yield url


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
