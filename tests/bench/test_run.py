"""The benchmark runs as `make bench-quick` runs it, and says all it should, of those too who could not take part."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import run as bench_run
from run import Bench, Flags
from suites.plan import SUITES

from .conftest import BENCH

pytestmark = pytest.mark.timeout(400)
OURS = ("headrace", "headrace-nats")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> "tuple[str, Path]":
    """What a short run printed, and the folder of its report."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, str(BENCH / "run.py"), "--quick", "--no-economics", "--results", str(folder)]
    command += ["--work", str(tmp_path_factory.mktemp("work"))]
    command += ["--suites", "low-latency-embedding", "high-concurrency"]
    command += ["--contenders", *OURS, "vllm", "--vllm", "http://127.0.0.1:9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


@pytest.fixture(scope="module")
def found(run: "tuple[str, Path]") -> "dict[str, Any]":
    (file,) = run[1].glob("*.json")
    return json.loads(file.read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.mark.whole_run
def test_both_ways_of_using_headrace_are_right_in_every_case(found: "dict[str, Any]") -> None:
    assert [suite["name"] for suite in found["suites"]] == ["low-latency-embedding", "high-concurrency"]
    for case in (case for suite in found["suites"] for case in suite["cases"]):
        assert [entry["contender"] for entry in case["entries"]] == list(OURS)
        for entry in case["entries"]:
            assert entry["is_right"], entry
            assert entry["per_s"] > 0
            assert entry["cpu_s_per_mtoken"] > 0
            assert 0 < entry["limit_share"] < 1.05


@pytest.mark.whole_run
def test_who_did_not_take_part_is_named_with_the_reason(found: "dict[str, Any]") -> None:
    others = {contender["name"]: contender for contender in found["contenders"] if not contender["is_ours"]}
    assert others["vllm"]["status"] in {"absent", "failed"}  # its client is not installed, or nobody answers
    assert others["vllm"]["reason"]
    assert others["openvino-bf16"]["status"] == "unasked"
    assert found["mode"] == "partial"
    assert found["unmeasured"] == {}


@pytest.mark.whole_run
def test_the_calibration_and_the_breakdown_are_there(found: "dict[str, Any]") -> None:
    assert found["calibrated"]["step_tokens"] >= 512
    assert found["calibrated"]["points"]
    assert [parts["case"] for parts in found["parts"]] == ["query", "512 tokens", "query, 16 clients"]
    for parts in found["parts"]:
        assert parts["total"] > parts["run"] > 0
    assert [steps["shape"] for steps in found["shapes"]][:3] == ["10 tok", "128 tok", "512 tok"]


@pytest.mark.whole_run
def test_the_report_is_written_beside_the_json_and_the_tables_fit_100_columns(run: "tuple[str, Path]") -> None:
    printed, folder = run
    (page,) = folder.glob("*.md")
    assert printed.splitlines()[-1].endswith(page.name)
    assert (folder / page.stem).is_dir()
    assert max(map(len, printed.splitlines()[:-1])) <= 100


@pytest.mark.parametrize(
    "flags", [("--threads", "0"), ("--suites", "fast"), ("--contenders", "opensearch"), ("--vllm",)]
)
def test_a_wrong_flag_is_refused_and_named(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run.py", *flags])
    with pytest.raises(SystemExit, match="2"):
        Flags.parse()
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_results_go_to_the_ignored_folder_and_everything_runs_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["run.py"])
    flags = Flags.parse()
    assert flags.results == BENCH / "results" / "local"
    assert not flags.suites
    assert not flags.contenders
    assert len(SUITES) == 4


@pytest.mark.parametrize("name", ["headrace-fp32", "infinity-bf16"])
def test_a_contender_of_another_machine_is_refused_with_those_of_this_one(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench_run, "_our_dtype", lambda _: "float32")
    monkeypatch.setattr(bench_run, "_best_of_peers", lambda: "float32")
    monkeypatch.setattr("sys.argv", ["run.py", "--contenders", "headrace", name])
    with pytest.raises(SystemExit) as refused:
        Bench(Flags.parse(), tmp_path, print)
    said = str(refused.value)
    assert said.startswith(f"{name}: not on this machine, where Headrace computes in float32")
    assert "choose from headrace, headrace-nats, infinity-fp32, " in said
