"""Histories outlive who writes them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from survival.history import Unreadable, read, written

from .histories import asked, ended

WRITE = """
import os, signal, sys
from pathlib import Path
sys.path += sys.argv[2:]
from survival.history import Asked, written
with written(Path(sys.argv[1])) as history:
    for number in range(1000):
        history.write(Asked(call=f"a-{number}", at_s=1.0, texts=(1,), timeout_s=1.0))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    one, end = asked(patience_s=0.5, tenant="t"), ended(digests=("d0", ""), errors={1: "non_finite: no"})
    with written(file) as history:
        history.write(one)
        history.write(end)
        history.stopped()
    found = read(file)
    assert (found.caller, found.asked, found.ended) == ("a", [one], [end])
    assert found.stopped_s is not None


def test_nobody_writes_the_history_of_another(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(FileExistsError), written(tmp_path / "a.jsonl"):
        pass


def test_who_is_killed_loses_nothing_that_he_wrote(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    ran = subprocess.run([sys.executable, "-c", WRITE, str(file), *filter(None, sys.path)], check=False)
    assert ran.returncode == -signal.SIGKILL
    found = read(file)
    assert len(found.asked) == 1000
    assert found.stopped_s is None


def test_half_of_a_last_line_is_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with written(file) as history:
        history.write(asked())
        history.write(ended())
    os.truncate(file, file.stat().st_size - 1)
    assert len(read(file).ended) == 1  # whole but for its end of line
    os.truncate(file, file.stat().st_size - 3)
    assert not read(file).ended


def test_half_of_another_line_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"what":"asked","call":\n{"what":"stopped","at_s":1}\n')
    with pytest.raises(Unreadable, match=r"a\.jsonl:1"):
        read(tmp_path / "a.jsonl")
