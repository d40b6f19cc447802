"""Fixtures of the gateway's tests: a fleet that embeds and scores, and a gateway to it."""

from collections.abc import Iterator

import httpx
import pytest
from headrace import SyncClient, local

from ..conftest import DEMO_MODEL
from ..engine.scorers import bert, save_scorer
from .running import Running, gateway, until_ready

SCORER = "scorer"


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a nats-server with a worker that embeds and one that scores, both in fp32."""
    path = tmp_path_factory.mktemp("scorer")
    save_scorer(bert(), path)
    with (
        local.server() as server,
        local.worker(DEMO_MODEL, server.url, "--dtype", "float32", "--threads", "1"),
        local.worker(str(path), server.url, "--dtype", "float32", "--threads", "1", "--name", SCORER),
    ):
        yield server.url


@pytest.fixture(scope="session")
def client(both: str) -> Iterator[SyncClient]:
    """What the gateway must agree with."""
    with SyncClient(both) as client:
        yield client


@pytest.fixture(scope="session")
def served(both: str) -> Iterator[Running]:
    """A gateway with the limits that it has by itself."""
    with gateway(both) as running:
        until_ready(running.url)
        yield running


@pytest.fixture(scope="session")
def http(served: Running) -> Iterator[httpx.Client]:
    """A plain HTTP client of it."""
    with httpx.Client(base_url=served.url, timeout=60) as http:
        yield http
