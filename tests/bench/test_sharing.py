"""Ways of sharing cores: each is set as it says, and each load is answered."""

import os
from pathlib import Path

import psutil
import pytest
import sharing_run
from headrace import Client
from headrace_engine import Engine
from models import prepare
from sharing_run import Figures, Load, Way


@pytest.fixture(scope="module")
def model(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(str(minilm.checkpoint.path), tmp_path_factory.mktemp("models"), 512).embedder


def test_all_cores_compute_and_one_less_and_with_threads_that_step_back() -> None:
    assert [str(way) for way in sharing_run.ways(2)] == [
        "2 threads, none niced",
        "1 threads, none niced",
        "2 threads, all niced",
        "2 threads, all but the first niced",
    ]
    assert {way.threads for way in sharing_run.ways(1)} == {1}


async def test_a_worker_steps_back_as_asked_and_queries_are_counted_beside_bulk(model: Path, tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with sharing_run.fleet(model, Way(1, "all but the first"), tmp_path / "log") as url:
        started = set(psutil.Process().children()) - before
        worker = next(each for each in started if "worker" in each.cmdline())
        nice = {thread.id: os.getpriority(os.PRIO_PROCESS, thread.id) for thread in worker.threads()}
        assert nice.pop(worker.pid) == 0
        assert set(nice.values()) == {sharing_run.NICE}
        figures = Figures()
        async with await Client.connect(url) as client, sharing_run.reindexing(client, ["a passage"] * 9):
            await sharing_run.measure(client, Load(2, bulk=True), ["a query", "another"], 0.2, figures)
    assert len(figures.durations_ms) >= 2
    assert figures.calls_per_s[0] > 0


def test_a_server_is_there_before_its_worker_and_both_are_gone_after(model: Path, tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with sharing_run.fleet(model, Way(1), tmp_path / "log"):
        assert len(set(psutil.Process().children()) - before) == 2
    assert set(psutil.Process().children()) == before
