"""Processes whose wall clock is set while they run, forward and back, and what waits in them goes on as before."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bulk.oracle import Oracle
from economics import processes
from headrace import Client, DeadlineExceeded, local
from survival.clock import Clock, NoLibrary

from .served import MODEL

# What it says of its clocks each time it is asked, having waited in all the ways that programs wait.
TELL = """
import asyncio, json, sys, threading, time
import nats, torch

async def waits():
    async with asyncio.timeout(5):
        await asyncio.sleep(0.01)
        await asyncio.to_thread(threading.Event().wait, 0.01)

for line in sys.stdin:
    asyncio.run(waits())
    total = torch.ones(2000, 20).sum().item()
    print(json.dumps([time.time(), time.monotonic(), time.perf_counter(), total]), flush=True)
"""


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    try:
        return Clock(tmp_path / "clock")
    except NoLibrary as error:
        pytest.skip(str(error))


@contextmanager
def teller(clock: Clock) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    ) as process:
        yield process


def told(process: "subprocess.Popen[str]") -> list[float]:
    """How far each of its clocks is ahead of ours."""
    assert process.stdin is not None
    assert process.stdout is not None
    print("now", file=process.stdin, flush=True)
    wall_s, *steady_s, total = json.loads(process.stdout.readline())
    assert total == 40_000
    return [wall_s - time.time(), *(each - time.monotonic() for each in steady_s)]


def test_a_wall_clock_is_set_in_a_running_process_and_no_other_clock_is(clock: Clock) -> None:
    with teller(clock) as process:
        for jump_s, ahead_s in ((0, 0), (3600, 3600), (-7200, -3600), (3600.5, 0.5)):
            clock.jump(jump_s)
            assert clock.ahead_s == ahead_s
            # What was told is some moments old by the time that it is read.
            assert told(process) == pytest.approx([ahead_s, 0, 0], abs=5)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


async def test_a_worker_whose_clock_is_behind_answers(
    clock: Clock, nats_server: local.Server, oracle: Oracle, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as log:
        own: dict[str, Any] = {"environment": clock.environment, "log": log}
        with processes.worker("survival.worker", MODEL, nats_server.url, **own):
            async with await Client.connect(nats_server.url) as client:
                for ahead_s in (0, -3600, -10, 2):
                    clock.set(ahead_s)
                    vector = await client.embed(f"{ahead_s} ahead", timeout=20)
                    assert (vector == oracle.vectors([f"{ahead_s} ahead"])[0]).all()


async def test_a_worker_whose_clock_is_far_ahead_takes_calls_for_late_until_it_is_set_back(
    clock: Clock, nats_server: local.Server, oracle: Oracle, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as log:
        own: dict[str, Any] = {"environment": clock.environment, "log": log}
        with processes.worker("survival.worker", MODEL, nats_server.url, **own):
            async with await Client.connect(nats_server.url) as client:
                clock.set(3600)
                with pytest.raises(DeadlineExceeded):
                    await client.embed("an hour later", timeout=20)
                clock.set(0)
                assert np.array_equal(await client.embed("now"), oracle.vectors(["now"])[0])
