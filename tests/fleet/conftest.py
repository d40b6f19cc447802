"""Fixtures of the tests that put a worker and a client together over real nats-servers."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

# The cluster that the benchmarks break is the tests', too. Last, so that no module of theirs hides another.
sys.path.append(str(Path(__file__).parents[2] / "bench"))

import pytest
from headrace import Client, local
from survival.cluster import Cluster, cluster


@pytest.fixture
async def client(nats_server: local.Server) -> AsyncIterator[Client]:
    """A client of the test's own server."""
    async with await Client.connect(nats_server.url) as client:
        yield client


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster of three, on loopback, whose servers a test can kill and start again, one by one."""
    with cluster(tmp_path, kind="processes") as servers:
        await servers.ready()
        yield servers
