"""A queue that is filled and let out: all of it goes, nothing stays behind, and no disk is filled up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from economics import backlog, processes
from economics.batch_queue import NoRoom, Queue, check_room
from economics.growth import Crowd
from economics.message_path import CHUNK_TOKENS
from headrace_engine import Engine
from models import prepare

from .conftest import BENCH


def children() -> set[psutil.Process]:
    """Those of this process; a fleet that other tests share may be among them."""
    return set(psutil.Process().children())


@pytest.fixture(scope="module")
def model(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(prepare(str(minilm.checkpoint.path), tmp_path_factory.mktemp("models"), 512).embedder)


async def test_a_backlog_of_200_chunks_fills_and_drains_and_nothing_is_left(model: str) -> None:
    async with Queue.opened(model, CHUNK_TOKENS) as queue:
        pid, store = queue.pid, queue.store
        assert await queue.fill(200, 16) > 0
        assert await queue.depth() == 200
        assert await queue.fill(150, 16) == 0  # enough are there
        with processes.null_worker(model, queue.url, "--max-chunk-tokens", str(CHUNK_TOKENS)) as worker:
            drained = await queue.drain({"broker": (pid,), "worker": (worker.pid,)}, 200, 30)
        assert await queue.depth() == 0
    assert 0 < drained.chunks <= 200
    assert min(drained.used.at_s, *drained.used.cpu_s.values()) > 0
    assert not psutil.pid_exists(pid)
    assert not store.exists()


@pytest.mark.whole_run
async def test_every_depth_is_measured(model: str) -> None:
    said: list[str] = []
    found = await backlog.measure(model, (40, 400), 5, said.append)
    assert [line.chunks for line in found] == [40, 400]
    assert len(said) == 2
    for line in found:
        assert line.drained > 0
        assert min(line.publish_per_s, line.drain_per_s, line.broker_cpu_us, line.worker_cpu_us) > 0
        assert min(line.broker_memory_mib, line.broker_disk_mib) > 0


@pytest.mark.whole_run
async def test_null_and_real_workers_take_chunks_out(model: str) -> None:
    async with Queue.opened(model, CHUNK_TOKENS) as queue:
        crowd = Crowd(queue, model, 0.2, lambda _: None)
        found = [line async for line in crowd.null((1, 2))]
        found += [line async for line in crowd.real((1, 2), "float32", threads=1)]
    assert [(line.engine, line.workers) for line in found] == [("null", 1), ("null", 2), ("real", 1)]
    assert all(line.tokens_per_s == line.chunks_per_s * CHUNK_TOKENS > 0 for line in found)


def test_a_backlog_wants_three_times_its_room() -> None:
    check_room(1000, 16, 3 * 1000 * 500)
    with pytest.raises(NoRoom, match=r"a backlog of 1000 chunks wants .* choose a smaller one"):
        check_room(1000, 16, 1000 * 500)


async def test_a_backlog_without_disk_room_is_refused_before_anything_starts(model: str) -> None:
    before = children()
    with pytest.raises(NoRoom):
        await backlog.measure(model, (10, 10**15), 1, lambda _: pytest.fail("it has begun"))
    assert children() == before


async def test_an_exception_leaves_no_process_and_no_file(model: str) -> None:
    before, stores = children(), []

    async def break_off() -> None:
        async with Queue.opened(model, CHUNK_TOKENS) as queue:
            stores.append(queue.store)
            raise RuntimeError("something else went wrong")

    with pytest.raises(RuntimeError, match="something else"):
        await break_off()
    assert children() == before
    assert not stores[0].exists()


@pytest.mark.whole_run
def test_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / "economics_run.py"), "--backlog", "50000"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(tmp_path)}, text=True)
    assert run.stderr is not None
    with run.stderr:
        assert "a backlog of 50,000 chunks" in run.stderr.readline()
        children = psutil.Process(run.pid).children(recursive=True)
        assert len(children) >= 2
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130
    assert not psutil.wait_procs(children, 20)[1]
    assert not list(tmp_path.iterdir())
