"""Functions run in a process of their own, which may do there what they like."""

import logging
import math
import os
import time
from pathlib import Path

import pytest
from headrace_engine import EngineConfig
from headrace_engine.tuning.apart import Lost, apart
from headrace_engine.tuning.attention import step_times_ms
from headrace_engine.tuning.mix import Batch

PATIENCE_S = 60


def test_a_result_comes_back() -> None:
    assert apart(math.hypot, 3.0, 4.0, timeout_s=PATIENCE_S) == 5.0
    assert apart(os.getpid, timeout_s=PATIENCE_S) != os.getpid()


def test_what_is_printed_meanwhile_is_logged_and_no_part_of_the_result(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert apart(os.system, "echo a warning", timeout_s=PATIENCE_S) == 0
    assert [record.getMessage() for record in caplog.records] == ["what ran apart printed:\na warning"]


def test_an_error_is_told() -> None:
    with pytest.raises(Lost, match="ValueError: math domain error"):
        apart(math.sqrt, -1.0, timeout_s=PATIENCE_S)


@pytest.mark.parametrize(
    ("run", "arguments", "message"),
    [(os.abort, (), "its process ended with SIGABRT"), (os._exit, (3,), "its process ended with status 3")],
)
def test_a_crash_is_told(run: object, arguments: tuple[int, ...], message: str) -> None:
    assert callable(run)
    with pytest.raises(Lost, match=message):
        apart(run, *arguments, timeout_s=PATIENCE_S)


def test_one_that_is_ended_while_it_answers_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import os, pickle, signal, sys\n"
        "sys.stdin.buffer.read()\n"
        "os.write(1, pickle.dumps((True, 'x' * 100))[:50])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setattr("headrace_engine.tuning.apart._CHILD", child)
    with pytest.raises(Lost, match="its process ended with SIGKILL"):
        apart(os.getpid, timeout_s=PATIENCE_S)


def test_what_a_process_printed_last_is_told_when_it_ends() -> None:
    with pytest.raises(Lost, match=r"its process ended with status 1; it printed last: no kernel"):
        apart(os.execl, "/bin/sh", "sh", "-c", "echo no kernel >&2; exit 1", timeout_s=PATIENCE_S)


def test_one_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    began_s = time.monotonic()
    with pytest.raises(Lost, match="no result within 2 s"):
        apart(os.system, f"sleep 600 & echo $! > {file}; wait", timeout_s=2)
    assert time.monotonic() - began_s < PATIENCE_S
    status = Path("/proc") / file.read_text().strip() / "status"
    # Told to end, it may still be at it; ended, it is in the list until whoever inherited it has looked.
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() - began_s < PATIENCE_S


def test_an_engine_loads_and_is_timed_in_a_process_of_its_own(small: Path) -> None:
    config = EngineConfig(device="cpu", dtype="float32", attention="sdpa")
    times = apart(step_times_ms, small, config, (Batch(0, (9,)), Batch(80, (80, 41))), timeout_s=PATIENCE_S)
    assert len(times) == 2
    assert min(times) > 0


def test_a_refusal_of_the_engine_is_told(small: Path) -> None:
    config = EngineConfig(device="cpu", dtype="float32", attention="fa3")
    with pytest.raises(Lost, match="UnsupportedModel: attention='fa3' cannot run this model here"):
        apart(step_times_ms, small, config, (Batch(0, (9,)),), timeout_s=PATIENCE_S)
