"""How the bulk bench breaks things, and mends them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nats
import psutil
import pytest
from bulk import faults
from bulk.broker import Broker
from bulk.crew import Crew
from bulk.disk import LimitedFiles, SmallDisk, disk
from bulk.footprint import Footprint
from bulk.held import Held
from bulk.reindex import NotDone, Reindex, command
from bulk.verify import verify
from economics import processes
from headrace_engine import Engine
from nats.js.errors import APIError

from ..waiting import until

MIB = 1 << 20
WRITE = "import pathlib, sys; sys.stdin.readline(); pathlib.Path(sys.argv[1]).write_bytes(bytes(100_000))"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "store")
    broker.start()
    yield broker
    broker.stop()


def test_a_plan_is_the_same_for_a_seed_and_has_each_kind() -> None:
    first, again, other = faults.plan(1), faults.plan(1), faults.plan(2)
    assert first == again != other
    for seed in range(50):
        plan = faults.plan(seed)
        assert {fault.kind for fault in plan} == set(faults.KINDS)
        assert all(0 < fault.after_s <= 4 and 0.1 <= fault.lasts_s <= 8 for fault in plan)
    assert len(faults.plan(1, 4)) == 4


async def test_a_broker_that_is_killed_comes_back_with_what_it_had_at_the_same_place(broker: Broker) -> None:
    url, pid = broker.url, broker.pid
    connection = await nats.connect(url, allow_reconnect=False)
    jetstream = connection.jetstream()
    await jetstream.add_stream(name="KEPT", subjects=["kept"], max_bytes=MIB, discard="new")
    await jetstream.publish("kept", b"something")
    await connection.close()
    broker.kill()
    broker.start()
    assert broker.url == url
    assert broker.pid != pid
    connection = await nats.connect(url)
    assert (await connection.jetstream().stream_info("KEPT")).state.messages == 1
    await connection.close()


async def test_a_nats_stream_can_be_full_and_keeps_what_it_has(broker: Broker) -> None:
    connection = await nats.connect(broker.url)
    jetstream = connection.jetstream()
    await jetstream.add_stream(name="KEPT", subjects=["kept"], max_bytes=MIB, discard="new")
    await jetstream.publish("kept", b"something")
    assert await broker.limit("KEPT", 1) == MIB
    with pytest.raises(APIError):
        await jetstream.publish("kept", b"more")
    assert await broker.limit("KEPT", MIB) == 1
    await jetstream.publish("kept", b"more")
    assert (await jetstream.stream_info("KEPT")).state.messages == 2
    await connection.close()


def test_a_frozen_broker_can_be_stopped(broker: Broker) -> None:
    broker.signal(signal.SIGSTOP)
    broker.stop()
    with pytest.raises(RuntimeError, match="down"):
        assert broker.pid
    broker.signal(signal.SIGCONT)  # nobody is there to get it


def test_a_small_disk_is_full_and_then_has_room(tmp_path: Path) -> None:
    with disk(tmp_path, 1, list) as small:
        if not isinstance(small, SmallDisk):
            pytest.skip("file systems cannot be mounted here")
        small.fill()
        with pytest.raises(OSError, match="No space left"):
            (small.folder / "part").write_bytes(bytes(100_000))
        small.free()
        (small.folder / "part").write_bytes(bytes(100_000))
    assert not list((tmp_path / "disk").iterdir())


@pytest.mark.parametrize("full", [True, False])
def test_without_one_the_files_of_processes_are_limited(tmp_path: Path, *, full: bool) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path / "part")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        limited = LimitedFiles(tmp_path, lambda: [process.pid])
        limited.fill()
        if not full:
            limited.free()
        _, said = process.communicate("now\n")
    assert ("File too large" in said) == full
    assert (process.returncode != 0) == full


def test_a_worker_is_killed_and_replaced(minilm: Engine, broker: Broker, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        crew = Crew(1, lambda _: processes.worker("bulk.stand_in", str(minilm.checkpoint.path), broker.url, log=log))
        crew.start_all()
        (pid,) = crew.pids
        crew.kill(0)
        assert not crew.pids
        assert not psutil.pid_exists(pid)
        crew.start(0)
        assert crew.pids != [pid]
        crew.signal(0, signal.SIGSTOP)
        crew.stop_all()
        assert not crew.pids


async def test_a_command_that_is_never_done_is_told_with_its_last_words(tmp_path: Path) -> None:
    job = Reindex("--no-such-flag", max_tries=2, log=tmp_path / "log")
    with pytest.raises(NotDone, match="No such option"):
        await job.run()
    assert job.exits == [2, 2]
    assert job.pid is None
    assert "no-such-flag" in (tmp_path / "log").read_text("utf-8")
    assert job.hold["longest_hold_ms"] >= 0


async def test_a_command_that_is_killed_is_started_again(tmp_path: Path) -> None:
    # Without a nats-server it tries to connect for some seconds: time to be killed in.
    what = command(tmp_path, tmp_path / "sink", url="nats://127.0.0.1:1", model="none", job="j")
    job = Reindex(*what, max_tries=2)
    running = asyncio.create_task(job.run())
    await until(lambda: job.pid is not None, "it runs")
    job.signal(signal.SIGKILL)
    with pytest.raises(NotDone):
        await running
    assert job.exits[0] == -signal.SIGKILL
    assert len(set(job.pids)) == 2


async def test_an_audit_that_cannot_be_made_is_no_success() -> None:
    assert await verify("nothing", "nats://127.0.0.1:1") != 0


async def test_the_longest_callback_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)  # taken back afterwards
    watch = Held()
    watch.watch()

    async def dawdle() -> None:
        sum(range(3_000_000))

    await asyncio.create_task(dawdle())
    assert watch.what.endswith("dawdle")
    assert watch.longest_ms >= watch.longest_cpu_ms > 0


async def test_a_footprint_has_samples_of_those_that_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(MIB))
    footprint = Footprint(lambda: {"this": os.getpid(), "nobody": None}, tmp_path)
    async with footprint.watched():
        await until(lambda: len(footprint.mib["disk"]) > 0, "there is a sample")
    assert footprint.mib["this"][0] > 1
    assert footprint.mib["disk"][0] >= 1
    assert "nobody" not in footprint.mib
    json.dumps(footprint.mib)
