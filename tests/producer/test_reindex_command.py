"""`headrace reindex` and `headrace job` as a script meets them: output, exit codes, messages."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from headrace import SyncClient
from headrace.commands.reindex import default_name

from .. import headrace_command
from ..waiting import until

Ended = subprocess.CompletedProcess[str]


def environment(fleet: str) -> dict[str, str]:
    return {**os.environ, "HEADRACE_NATS": fleet, "NO_COLOR": "1", "COLUMNS": "120"}


def run(folder: Path, fleet: str, *arguments: str) -> Ended:
    return headrace_command.run(*arguments, fleet=fleet, here=folder)


def write_corpus(path: Path, texts: Sequence[str | None]) -> None:
    pq.write_table(pa.table({"id": range(len(texts)), "text": pa.array(texts, pa.string())}), path)


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_vectors_are_those_of_a_call_and_what_failed_is_told_by_file_and_exit_code(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill", None, "a wheel"])
    ended = run(
        *(tmp_path, fleet, "reindex", "corpus.parquet", "--to", "parquet:out", "--id", "id", "--job", "told"),
        *("--max-errors", "1"),
    )
    assert ended.returncode == 3
    assert ended.stdout == ""
    assert "job told is done: 2 of 3 rows written; 1 row failed, see out/_headrace/told/errors.jsonl" in ended.stderr
    (failure,) = json_lines((tmp_path / "out/_headrace/told/errors.jsonl").read_text("utf-8"))
    assert (failure["id"], failure["code"]) == (1, "null")
    rows = pq.read_table(tmp_path / "out").sort_by("id")
    with SyncClient(fleet) as client:
        np.testing.assert_array_equal(np.stack(rows["vector"].to_pylist()), client.embed(["a mill", "a wheel"]))
    again = run(tmp_path, fleet, "job", "verify", "told")
    assert again.returncode == 0
    assert again.stderr == "right: 2 rows in the sink, 1 failed and are in the errors file\n"


def test_for_a_program_each_line_is_json_the_last_one_too(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill"])
    command = (tmp_path, fleet, "reindex", "corpus.parquet", "--to", "parquet:out", "--progress", "json")
    *_, progress, summary = json_lines(run(*command, "--id", "id").stderr)
    assert (progress["stage"], progress["rows_done"], progress["chunks_queued"]) == ("done", 1, 0)
    assert summary["text"].startswith(f"job {summary['job']} is done: 1 of 1 row written")
    assert (summary["state"], summary["written"], summary["errors"]) == ("done", 1, None)
    refused = run(*command, "--id", "uid")
    error = json_lines(refused.stderr)[-1]
    assert refused.returncode == 1
    assert (error["level"], error["kind"]) == ("error", "SourceError")
    assert "has no column 'uid': there is id, text" in error["text"]
    assert run(*command, "--max-errors", "some").returncode == 2


@pytest.mark.parametrize("progress", ["bar", "json"])
def test_that_nobody_listens_changes_nothing(fleet: str, tmp_path: Path, progress: str) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill"])
    command = [sys.executable, "-m", "headrace", "reindex", "corpus.parquet", "--to", "parquet:out", "--id", "id"]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*command, "--progress", progress], cwd=tmp_path, env=environment(fleet), stderr=writer, check=False, timeout=60
    )
    os.close(writer)
    assert ended.returncode == 0
    assert pq.read_table(tmp_path / "out").num_rows == 1


def test_too_many_failures_end_it_and_say_where_they_are(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill", None])
    ended = run(
        *(tmp_path, fleet, "reindex", "corpus.parquet", "--to", "parquet:out", "--id", "id", "--job", "many"),
        *("--progress", "none"),
    )
    assert ended.returncode == 1
    assert "1 of 2 rows have failed, more than --max-errors 10%: see out/_headrace/many/errors" in ended.stderr
    (file,) = (tmp_path / "out/_headrace/many/errors").iterdir()
    assert json_lines(file.read_text("utf-8"))[0]["id"] == 1


def test_a_job_that_was_interrupted_waits_and_the_command_that_is_shown_goes_on_with_it(
    fleet: str, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "the corpus.parquet", [f"number {number} of the mill" for number in range(3000)])
    command = [sys.executable, "-m", "headrace", "reindex", "the corpus.parquet", "--to", "parquet:out", "--id", "id"]
    command += ["--job", "waits", "--window-rows", "100", "--no-dedupe", "--dim", "32", "--progress", "none"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(fleet), stderr=subprocess.PIPE, text=True) as process:
        asyncio.run(until(lambda: any((tmp_path / "out").glob("part-*.parquet")), "a part is written"))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said == "job waits stopped here; the same command goes on with it\n"
    assert " waiting " in next(
        line for line in run(tmp_path, fleet, "job", "ls").stdout.splitlines() if "waits" in line
    )
    (facts,) = json_lines(run(tmp_path, fleet, "job", "show", "waits", "--json").stdout)
    shown = shlex.split(facts["command"])
    assert facts["command"] in run(tmp_path, fleet, "job", "show", "waits").stdout
    ended = run(tmp_path / "out", fleet, *shown[1:])
    assert ended.returncode == 0
    assert "job waits is done: 3,000 of 3,000 rows written" in ended.stderr
    ids = pq.read_table(tmp_path / "out", columns=["id"])["id"].to_pylist()
    assert sorted(ids) == list(range(3000))


def test_what_is_lost_in_the_sink_is_found_and_done_again(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill", "a wheel"])
    run(tmp_path, fleet, "reindex", "corpus.parquet", "--to", "parquet:out", "--id", "id", "--job", "lost")
    (part,) = (tmp_path / "out").glob("part-*.parquet")
    part.unlink()
    ended = run(tmp_path, fleet, "job", "verify", "lost", "--no-repair")
    assert (ended.returncode, ended.stderr) == (1, "not right: 2 rows missing, in the windows 00000-000000\n")
    ended = run(tmp_path, fleet, "job", "verify", "lost", "--json")
    assert ended.returncode == 0
    assert json_lines(ended.stdout)[0]["right"] == 2
    assert pq.read_table(tmp_path / "out").num_rows == 2


def test_a_job_whose_sink_is_no_folder_remembers_where_its_files_are(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill", None])
    command = ("reindex", str(tmp_path / "corpus.parquet"), "--to", f"qdrant:{tmp_path}/points#mills", "--id", "id")
    options = ("--job", "apart", "--max-errors", "1", "--progress", "none")
    assert run(tmp_path, fleet, *command, *options).returncode == 3
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run(elsewhere, fleet, "job", "verify", "apart", "--no-repair").returncode == 0
    (facts,) = json_lines(run(elsewhere, fleet, "job", "show", "apart", "--json").stdout)
    again = run(elsewhere, fleet, *shlex.split(facts["command"])[1:], "--max-errors", "1", "--progress", "none")
    assert f"1 row failed, see {tmp_path}/headrace-jobs/apart/errors.jsonl" in again.stderr
    assert not any(elsewhere.iterdir())


def test_a_sink_that_cannot_be_is_refused_at_once_and_nothing_is_left(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill"])
    for to, says in (
        ("parquet:corpus.parquet", "a part of the path is a file: name a folder, which may be new"),
        ("numpy:corpus.parquet/in", "a part of the path is a file"),
        ("parquet:.", "which is no file of a bulk job: choose a folder of its own"),
    ):
        ended = run(tmp_path, fleet, "reindex", "corpus.parquet", "--to", to, "--id", "id", "--progress", "none")
        assert ended.returncode == 1
        assert says in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.parquet"]


def test_a_misspelt_column_empties_no_sink(fleet: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill"])
    command = (tmp_path, fleet, "reindex", "corpus.parquet", "--to", "parquet:out", "--id", "id", "--progress", "none")
    assert run(*command).returncode == 0
    assert run(*command, "--dim", "8", "--replace", "--column", "body").returncode == 1
    assert len(pq.read_table(tmp_path / "out")["vector"][0]) == 384
    assert run(*command, "--dim", "8", "--replace").returncode == 0
    assert len(pq.read_table(tmp_path / "out")["vector"][0]) == 8


def test_a_sink_that_ends_with_the_command_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.parquet", ["a mill"])
    ended = run(tmp_path, "nats://127.0.0.1:1", "reindex", "corpus.parquet", "--to", "qdrant::memory:#mills")
    assert ended.returncode == 2
    assert "would be gone with the command" in ended.stderr


@pytest.mark.parametrize(
    ("source", "stem"),
    [
        ("/data/articles.parquet", "articles"),
        ("/data/articles.jsonl.gz", "articles"),
        ("/data/news/*.parquet", "news"),
        ("/data/été 2024/", "t-2024"),
        ("duckdb:SELECT id, text FROM '/data/articles.csv'", "articles"),
        ("/*", "job"),
    ],
)
def test_a_job_without_a_name_gets_one_of_its_source(source: str, stem: str) -> None:
    name = default_name(source, "parquet:/out", None)
    assert name.rpartition("-")[0] == stem
    assert name == default_name(source, "parquet:/out", None)
    assert len({name, default_name(source, "parquet:/other", None), default_name(source, "parquet:/out", "m")}) == 3
