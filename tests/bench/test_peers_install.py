"""bench/peers/install.py, run as a script on small requirements that need no network."""

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import BENCH

SCRIPT = BENCH / "peers" / "install.py"


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """One peer that needs nothing, and one that needs what there is not."""
    directory = tmp_path / "requirements"
    directory.mkdir()
    (directory / "empty.in").write_text("# nothing\n")
    (directory / "empty.txt").write_text("# nothing\n")
    (directory / "cursed.in").write_text("no-such-package  # on purpose\n")
    (directory / "cursed.txt").write_text("--no-index\nno-such-package==1.0\n")
    return directory


def install(requirements: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    into = requirements.with_name("peers")
    command = [sys.executable, str(SCRIPT), "--requirements", str(requirements), "--into", str(into), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_peer_that_cannot_be_installed_is_reported_and_stops_nobody(requirements: Path) -> None:
    done = install(requirements)
    assert done.returncode == 1
    assert "cursed: pip failed:" in done.stdout
    assert "No matching distribution found for no-such-package==1.0" in done.stdout
    assert done.stdout.splitlines()[-2:] == [
        "cursed  absent  no-such-package 1.0",
        "empty   ready   ",
    ]
    assert (requirements.with_name("peers") / "empty" / "bin" / "python").exists()
    assert not (requirements.with_name("peers") / "cursed").exists()


def test_a_second_run_does_nothing(requirements: Path) -> None:
    assert install(requirements, "--only", "empty").returncode == 0
    python = requirements.with_name("peers") / "empty" / "bin" / "python"
    made = python.lstat().st_mtime_ns
    done = install(requirements, "--only", "empty")
    assert done.returncode == 0
    assert "installing" not in done.stdout
    assert python.lstat().st_mtime_ns == made


def test_requirements_that_changed_are_installed_anew(requirements: Path) -> None:
    install(requirements, "--only", "empty")
    (requirements / "empty.txt").write_text("# still nothing\n")
    assert "empty: installing into" in install(requirements, "--only", "empty").stdout


def test_only_what_is_named_is_installed(requirements: Path) -> None:
    done = install(requirements, "--only", "empty")
    assert done.returncode == 0
    assert "cursed: " not in done.stdout


def test_an_unknown_name_is_refused_with_the_known_ones(requirements: Path) -> None:
    done = install(requirements, "--only", "vlm")
    assert done.returncode == 2
    assert "--only vlm: no such peer; there are cursed, empty" in done.stderr


def test_each_peer_has_requirements_that_are_resolved_to_the_last_version() -> None:
    resolved = sorted((BENCH / "peers" / "requirements").glob("*.txt"))
    assert [file.stem for file in resolved] == ["fastembed", "http", "infinity", "openvino", "sentence-transformers"]
    for file in resolved:
        asked = [line.split("#")[0].strip() for line in file.with_suffix(".in").read_text().splitlines()]
        pins = file.read_text().splitlines()
        assert all("==" in pin and "+" not in pin for pin in pins)
        for name in (line.replace("[server,torch]", "") for line in asked if line):
            assert any(pin == name or pin.startswith(f"{name}==") for pin in pins), name
