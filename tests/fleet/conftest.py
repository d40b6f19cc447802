"""Fixtures of the tests that put a worker and a client together over a real nats-server."""

from collections.abc import AsyncIterator

import pytest
from headrace import Client, local


@pytest.fixture
async def client(nats_server: local.Server) -> AsyncIterator[Client]:
    """A client of the test's own server."""
    async with await Client.connect(nats_server.url) as client:
        yield client
