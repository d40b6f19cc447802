"""A cluster whose servers are containers, with networks of their own for clients and for each two servers."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from headrace_contracts.api import api
from survival.cluster import NAMES, Cluster, cluster
from survival.node import num_messages
from survival.place import NotPermitted

from ..fleet.broker_view import connected
from ..ops import docker, packages

pytest.importorskip("testcontainers")

STREAM = "WHEEL"
LEFT, MIDDLE, RIGHT = NAMES


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.Docker]:
    """A Docker daemon that nobody else uses, as the one that clients find."""
    missing = [name for name in ("dockerd", "docker") if packages.find(name) is None]
    if missing:
        pytest.skip(f"not here: {', '.join(missing)}")
    try:
        with docker.docker() as running, pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", running.environment["DOCKER_HOST"])
            yield running
    except docker.CannotRun as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
async def three(engine: docker.Docker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    del engine  # it is to run
    with cluster(tmp_path_factory.mktemp("containers"), kind="containers", extra_places=("client-0",)) as made:
        await made.ready()
        yield made


async def whole(three: Cluster, num: int) -> None:
    """Wait until all have so many messages."""
    async with asyncio.timeout(30):
        while True:
            with suppress(OSError, KeyError):
                if {await asyncio.to_thread(num_messages, node, STREAM) for node in three.nodes.values()} == {num}:
                    return
            await asyncio.sleep(0.05)
