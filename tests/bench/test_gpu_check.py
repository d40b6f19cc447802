"""gpu_check.py runs on a CPU as it does on a GPU, scaled down, and whatever ends it, it keeps what it found."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_check import Flags

from .conftest import BENCH

SCRIPT = str(BENCH / "gpu_check.py")
STAGES = {"attention", "rows", "leaks", "races", "captures", "host", "steps", "bulk", "memory"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> "tuple[subprocess.CompletedProcess[str], dict[str, Any]]":
    """A whole run, and its JSON."""
    directory = tmp_path_factory.mktemp("gpu")
    command = [sys.executable, SCRIPT, "--device", "cpu", "--budget-s", "100", "--out", "new/gpu.json"]
    # From another folder, and without what only an installed repository has.
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return done, json.loads((directory / "new" / "gpu.json").read_text("utf-8"))


@pytest.mark.whole_run
def test_a_run_on_a_cpu_succeeds_and_says_that_it_is_scaled_down(run: Any) -> None:
    done, found = run
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scaled down for a CPU" in done.stdout
    assert (found["end"], found["is_small"], found["has_failed"]) == ("it ended", True, False)
    assert done.stdout.splitlines()[-1] == "new/gpu.json"


@pytest.mark.whole_run
def test_every_stage_says_something(run: Any) -> None:
    _, found = run
    assert {finding["where"]["stage"] for finding in found["findings"]} >= STAGES
    assert not [finding for finding in found["findings"] if finding.get("outcome") == "failed"]


@pytest.mark.whole_run
def test_what_needs_cuda_is_listed_with_the_reason(run: Any) -> None:
    done, found = run
    skipped = {
        (finding["where"]["stage"], finding["where"]["backend"]): finding["detail"]
        for finding in found["findings"]
        if finding.get("outcome") == "skipped"
    }
    for backend in ("fa2", "fa3", "fa4", "varlen"):
        assert skipped["prepare", backend] == "it is for CUDA devices"
    assert skipped["memory", "sdpa"] == "there are no graphs here"
    assert "nothing can be captured" in skipped["rows", "sdpa"]
    assert "prepare, fa3: it is here: it is for CUDA devices" in done.stdout


@pytest.mark.whole_run
def test_times_have_floors_and_a_bulk_has_two_sizes(run: Any) -> None:
    done, found = run
    times = [finding for finding in found["findings"] if finding["kind"] == "Timing"]
    assert {time["where"]["model"] for time in times} == {"MiniLM", "XLM-R-large", "Qwen3-0.6B"}
    assert all(time["floor_ms"] > 0 and time["step"]["p50_ms"] > 0 for time in times)
    assert [finding["processes"] for finding in found["findings"] if finding["kind"] == "Bulk"] == [1, 2]
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.whole_run
def test_the_json_names_no_place_on_a_disk(run: Any) -> None:
    facts = json.dumps(run[1]["facts"])
    assert not re.search(r'(^|[\s"])/', facts)
    assert str(Path.home()) not in facts


@pytest.mark.parametrize(("number", "moment"), [(signal.SIGINT, "attention"), (signal.SIGTERM, "rates")])
@pytest.mark.whole_run
def test_an_interrupted_run_prints_and_keeps_what_it_has(number: int, moment: str, tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [sys.executable, SCRIPT, "--device", "cpu", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert next(line for line in process.stdout if moment in line)
        os.kill(process.pid, number)
        printed = process.stdout.read()
    assert process.returncode == 1
    assert "it was interrupted after" in printed
    assert json.loads(out.read_text("utf-8"))["end"] == "it was interrupted"


@pytest.mark.parametrize("flags", [("--budget-s", "soon"), ("--stages", "all")])
def test_a_wrong_flag_is_refused_and_named(
    flags: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu_check.py", *flags])
    with pytest.raises(SystemExit, match="2"):
        Flags.parse()
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_the_json_goes_to_the_ignored_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gpu_check.py"])
    flags = Flags.parse()
    assert flags.out.parent == BENCH / "results" / "local"
    assert set(flags.stages) == STAGES
