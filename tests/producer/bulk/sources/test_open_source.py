"""What a user types, and what is meant by it."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from headrace.bulk.sources.open_source import open_source
from headrace.errors import InputError, SourceError

from .corpora import all_rows, lines, rows, written

ONE = lines({"id": 1, "text": "a"})


def names(what: object, **options: str) -> list[str]:
    return [shard.name for shard in open_source(str(what), **options).shards()]  # type: ignore[arg-type]  # a dict of options has one type


def test_a_folder_is_all_of_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/z.jsonl", "a.jsonl", "a/year=2020/x.JSONL.gz", "B.ndjson"):
        written(tmp_path / name, ONE)
    assert names(tmp_path) == ["B.ndjson", "a.jsonl", "a/year=2020/x.JSONL.gz", "a/z.jsonl", "b.jsonl"]


def test_what_programs_leave_beside_their_output_is_passed_over(tmp_path: Path) -> None:
    for name in ("a.jsonl", "_SUCCESS", ".a.jsonl.crc", "_temporary/b.jsonl", ".git/c.jsonl", "README.md", "_d.jsonl"):
        written(tmp_path / name, ONE)
    assert names(tmp_path) == ["a.jsonl"]


def test_vectors_in_a_folder_of_the_corpus_are_no_part_of_it_and_a_corpus_of_their_own(tmp_path: Path) -> None:
    for name in ("a.jsonl", "vectors/b.jsonl", "vectors/_headrace/c.jsonl", "more/vectors/_headrace/d.jsonl"):
        written(tmp_path / name, ONE)
    assert names(tmp_path) == ["a.jsonl"]
    assert names(tmp_path / "vectors") == ["b.jsonl"]


def test_a_glob_names_files_from_its_first_star_on(tmp_path: Path) -> None:
    for name in ("x/a.jsonl", "x/b.jsonl", "y/a.jsonl", "x/deep/c.jsonl", "x/a.csv"):
        written(tmp_path / name, ONE)
    assert names(tmp_path / "*" / "a.jsonl") == ["x/a.jsonl", "y/a.jsonl"]
    assert names(tmp_path / "x" / "**" / "*.jsonl") == ["a.jsonl", "b.jsonl", "deep/c.jsonl"]
    assert names(tmp_path / "x" / "[ab].jsonl") == ["a.jsonl", "b.jsonl"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    written(tmp_path / "a[1].jsonl", ONE)
    written(tmp_path / "a1.jsonl", ONE)
    assert names(tmp_path / "a[1].jsonl") == ["a[1].jsonl"]


def test_a_corpus_has_a_name_by_which_it_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a.jsonl", ONE)
    monkeypatch.chdir(tmp_path)
    assert [open_source(what).name for what in (".", "a.jsonl", "*")] == [
        f"{tmp_path}",
        f"{tmp_path}/a.jsonl",
        f"{tmp_path}/*",
    ]


def test_names_and_states_are_the_same_on_machines_with_copies(tmp_path: Path) -> None:
    shards = []
    for machine in ("here", "there"):
        written(tmp_path / machine / "data" / "a.jsonl", ONE)
        written(tmp_path / machine / "data" / "b.jsonl", ONE * 2)
        shards.append(open_source(str(tmp_path / machine / "data")).shards())
    assert shards[0] == shards[1]
    assert shards[0][0].state != shards[0][1].state


@pytest.mark.parametrize("at", [0, 100, 200_000])
def test_the_state_tells_a_change_of_head_tail_or_length(tmp_path: Path, at: int) -> None:
    content = bytearray(lines(*({"text": "x" * 100} for _ in range(2000))))
    before = open_source(str(written(tmp_path / "a.jsonl", bytes(content)))).shards()[0].state
    content[at if at < 200_000 else -50] = ord(" ")
    assert open_source(str(written(tmp_path / "a.jsonl", bytes(content)))).shards()[0].state != before
    assert open_source(str(written(tmp_path / "a.jsonl", bytes(content) + b"\n"))).shards()[0].state != before


def test_a_file_that_changes_while_the_job_runs_is_refused(tmp_path: Path) -> None:
    source = open_source(str(written(tmp_path / "a.jsonl", ONE)))
    source.shards()
    written(tmp_path / "a.jsonl", ONE * 2)
    with pytest.raises(SourceError, match=r"a\.jsonl has changed since the job began: restore it"):
        rows(source)


def test_files_of_several_kinds_are_refused_until_one_is_chosen(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.csv"):
        written(tmp_path / name, ONE if name.endswith("l") else b"text\na\n")
    with pytest.raises(
        SourceError, match="several kinds, 1 of kind csv and 2 of kind jsonl: choose with --source-kind"
    ):
        open_source(str(tmp_path))
    assert names(tmp_path, kind="csv") == ["c.csv"]
    assert names(tmp_path / "*.jsonl") == ["a.jsonl", "b.jsonl"]


def test_files_whose_names_tell_nothing_are_read_as_the_user_says(tmp_path: Path) -> None:
    written(tmp_path / "part-0", ONE)
    with pytest.raises(
        SourceError, match=r"name of .*part-0 does not tell its kind: say it with --source-kind parquet\|jsonl"
    ):
        open_source(str(tmp_path / "part-0"))
    with pytest.raises(SourceError, match=r"matches no file that could be read: those are named \.parquet, "):
        open_source(str(tmp_path))
    assert names(tmp_path / "part-0", kind="jsonl") == names(tmp_path, kind="jsonl") == ["part-0"]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("nowhere.jsonl", "there is no .*nowhere.jsonl: name a file, a folder or a glob"),
        ("*.jsonl", "matches no file"),
        ("empty", "matches no file"),
    ],
)
def test_what_is_not_there_is_said(tmp_path: Path, what: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=says):
        open_source(str(tmp_path / what))


def test_a_url_is_refused_with_what_would_do() -> None:
    with pytest.raises(SourceError, match=r"s3://bucket/a.parquet is no path: .*duckdb:"):
        open_source("s3://bucket/a.parquet")


def test_no_password_of_a_url_is_repeated_and_nothing_is_not_this_folder() -> None:
    with pytest.raises(SourceError, match=r"postgresql://me:…@host/db is no path") as raised:
        open_source("postgresql://me:secret@host/db")
    assert "secret" not in str(raised.value)
    with pytest.raises(InputError, match="the source is empty"):
        open_source(" ")


def test_a_kind_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kind is 'xml': choose one of parquet, jsonl, csv, arrow, or duckdb"):
        open_source(str(written(tmp_path / "a.jsonl", ONE)), kind="xml")


def test_compressed_parquet_is_not_taken_for_parquet(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"does not tell its kind"):
        open_source(str(written(tmp_path / "a.parquet.gz", b"")))


def test_links_to_files_are_followed_as_the_hubs_cache_has_them(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "blob")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "a.parquet").symlink_to("../blob")
    (tmp_path / "snapshot" / "broken.parquet").symlink_to("../nowhere")
    (tmp_path / "snapshot" / "loop").symlink_to(".")
    assert all_rows(open_source(str(tmp_path / "snapshot"))) == [("a.parquet:0", "a")]


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", ONE)
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert names(tmp_path) == ["a.jsonl"]
    with pytest.raises(SourceError, match=r"pipe\.jsonl is no file"):
        names(tmp_path / "pipe.jsonl")


@pytest.mark.parametrize("module", ["source", "sources.open_source"])
def test_libraries_are_imported_when_they_are_needed(module: str) -> None:
    code = f"import sys, headrace.bulk.{module}; sys.exit(bool({{'pyarrow', 'duckdb'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("library", "what", "extra"), [("pyarrow", "a.parquet", "bulk"), ("duckdb", "duckdb:SELECT 1", "duckdb")]
)
def test_a_library_that_is_missing_is_said_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, what: str, extra: str
) -> None:
    for module in [name for name in sys.modules if name.startswith("headrace.bulk.sources.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    written(tmp_path / "a.parquet", b"")
    with pytest.raises(InputError, match=rf"{library} is not installed: pip install 'headrace\[{extra}\]'"):
        open_source(what if ":" in what else str(tmp_path / what), id_column="id")
