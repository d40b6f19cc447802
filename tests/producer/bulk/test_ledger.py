"""The files that a job keeps beside its vectors."""

from pathlib import Path

import pytest
from headrace.bulk.ledger import Failure, Ledger, Record
from headrace.errors import SinkError


def record(window: int, **changed: object) -> Record:
    numbers = {"first": window * 10, "rows": 10, "written": 8, "unchanged": 1, "failed": 1, "tokens": 99}
    return Record(**{"window": window, "ids": "ab", "vectors": "cd", **numbers, **changed})  # type: ignore[arg-type]


def failure(row: int, shard: int = 0, id_: int | str | None = None) -> Failure:
    return Failure(
        id=f"id {row}" if id_ is None else id_, shard=shard, row=row, code="null", text="no text: give it one"
    )


def test_records_come_back_by_window_and_the_last_of_a_window_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new" / "place")
    assert ledger.records(3) == {}
    for each in (record(1), record(0), record(1, tokens=5)):
        ledger.append(3, each)
    assert list(ledger.records(3).items()) == [(0, record(0)), (1, record(1, tokens=5))]
    assert ledger.records(4) == {}


@pytest.mark.parametrize("kept", range(1, len('{"window": 1, "first": 10')))
def test_the_half_of_a_line_spoils_neither_the_line_before_nor_the_one_after(tmp_path: Path, kept: int) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(0, record(0))
    file = tmp_path / "windows-00000.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:kept])
    assert ledger.records(0) == {0: record(0)}
    ledger.append(0, record(1))
    assert ledger.records(0) == {0: record(0), 1: record(1)}


def test_a_line_that_only_lacks_its_end_is_whole(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(0, record(0))
    file = tmp_path / "windows-00000.jsonl"
    file.write_bytes(file.read_bytes()[:-1])
    ledger.append(0, record(1))
    assert ledger.records(0) == {0: record(0), 1: record(1)}


@pytest.mark.parametrize("line", [b"\0" * 300, b"[]", b"null", b'{"window": 7}', b"\xff\xfe", b"", b"[" * 100_000])
def test_what_is_no_record_is_passed_over(tmp_path: Path, line: bytes) -> None:
    ledger = Ledger(tmp_path)
    (tmp_path / "windows-00000.jsonl").write_bytes(line)
    ledger.append(0, record(0))
    assert ledger.records(0) == {0: record(0)}


def test_errors_of_a_window_replace_those_of_an_earlier_try(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.write_errors("00000-000000", [failure(1), failure(2)])
    ledger.write_errors("00001-000000", [failure(0, shard=1)])
    ledger.write_errors("00000-000000", [failure(2)])
    assert list(ledger.errors()) == [failure(2), failure(0, shard=1)]
    ledger.write_errors("00000-000000", [])
    ledger.write_errors("00000-000000", [])
    assert list(ledger.errors()) == [failure(0, shard=1)]


def test_ids_of_failed_rows_come_back_whatever_is_in_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ids: list[int | str] = ["é\u2028\x85\n\"'\0", "half \ud800", -(2**63), "x" * 10_000]
    odd = [failure(row, id_=one) for row, one in enumerate(ids)]
    ledger.write_errors("00000-000000", odd)
    assert list(ledger.errors()) == odd
    joined = ledger.join_errors()
    assert joined is not None
    assert joined.read_bytes().count(b"\n") == len(odd)
    assert len(joined.read_text("utf-8")) > 10_000


def test_joined_errors_are_those_of_the_corpus_in_its_order(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for shard in (2, 0, 1):
        ledger.write_errors(f"{shard:05d}-000000", [failure(0, shard=shard)])
    joined = ledger.join_errors({"00000-000000", "00002-000000"})
    assert joined == tmp_path / "errors.jsonl"
    assert [line[:30] for line in joined.read_text().splitlines()] == [
        '{"id": "id 0", "shard": 0, "ro',
        '{"id": "id 0", "shard": 2, "ro',
    ]
    assert ledger.join_errors({"00009-000000"}) is None
    assert not joined.exists()
    assert list(ledger.errors()) == []


def test_a_cleared_ledger_is_a_new_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(0, record(0))
    ledger.write_errors("00000-000000", [failure(1)])
    ledger.join_errors()
    ledger.clear()
    assert (ledger.records(0), list(ledger.errors()), ledger.join_errors()) == ({}, [], None)
    Ledger(tmp_path / "none").clear()


def test_a_folder_that_cannot_be_made_is_a_sink_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"file.*(EEXIST|ENOTDIR)"):
        Ledger(tmp_path / "file").append(0, record(0))
    with pytest.raises(SinkError, match=r"file.*(EEXIST|ENOTDIR)"):
        Ledger(tmp_path / "file").write_errors("00000-000000", [failure(0)])
