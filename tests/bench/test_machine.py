"""The facts of a machine are complete, and name nobody and no place."""

import getpass
import json
import re
import socket
from dataclasses import asdict
from pathlib import Path

import machine
import pytest
from machine import Machine


@pytest.fixture(scope="module")
def here() -> Machine:
    return Machine.here("float32")


def test_the_facts_are_there(here: Machine) -> None:
    assert here.dtype == "float32"
    assert here.cores >= 1
    assert here.threads >= 1
    assert here.memory_gib > 0
    assert here.processor
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", here.nats_server)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", here.date)
    assert here.commit is None or re.fullmatch(r"[0-9a-f]{40,64}", here.commit)


def test_the_facts_name_no_host_no_user_and_no_path(here: Machine) -> None:
    facts = json.dumps(asdict(here))
    assert not {socket.gethostname(), getpass.getuser()} & set(re.findall(r"[\w.-]+", facts))
    assert not re.search(r'(^|[\s"])/', facts)
    assert str(Path.home()) not in facts


def test_outside_a_repository_there_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "machine.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = Machine.here("float32")
    assert found.commit is None
    assert found.dirty is None


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert Machine.here("float32").commit is None
