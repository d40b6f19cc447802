"""The harness is made of modules of bench/, so their folder must be on the path, as it is when one of them is run."""

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"

# Last, so that no module of theirs hides another.
sys.path.append(str(BENCH))

from collections.abc import Iterator

import pytest
from bulk.oracle import Oracle
from economics import processes
from headrace import local

from .served import MODEL, WORKER, Served


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Knows what vector a text must have."""
    return Oracle(MODEL)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A nats-server of its own, and a worker process that answers with hashes."""
    folder = tmp_path_factory.mktemp("served")
    log = folder / "worker.log"
    with (
        log.open("wb") as out,
        local.server(folder / "store") as server,
        processes.worker("survival.worker", MODEL, server.url, "--worker", WORKER, log=out) as worker,
    ):
        yield Served(url=server.url, worker=worker, log=log)
