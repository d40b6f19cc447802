"""CSV, good and bad."""

import csv
import gzip
from pathlib import Path

import pytest
from headrace.bulk.rows import Problem
from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.bulk.sources.csv_records import CsvRecords
from headrace.bulk.sources.open_source import open_source
from headrace.bulk.sources.text_lines import TextLines
from headrace.errors import InputError, SourceError

from .corpora import Row, codes, rows, written


def read(tmp_path: Path, content: bytes, name: str = "a.csv", **options: str) -> list[Row]:
    return rows(open_source(str(written(tmp_path / name, content)), **{"id_column": "id", **options}))  # type: ignore[arg-type]  # a dict of options has one type


def test_fields_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    content = b'id,text\r\n1,"a, b"\r\n2,"say ""x"""\r\n3,"two\r\nlines\n\nand more"\r\n\r\n4,plain'
    assert read(tmp_path, content) == [
        ("1", "a, b"),
        ("2", 'say "x"'),
        ("3", "two\r\nlines\n\nand more"),
        ("4", "plain"),
    ]


def test_ids_stay_as_they_are_spelt(tmp_path: Path) -> None:
    assert [id_ for id_, _ in read(tmp_path, b"id,text\n007,a\n 8,b\n")] == ["007", " 8"]


def test_tabs_part_the_fields_of_tsv_and_other_marks_can_be_told(tmp_path: Path) -> None:
    assert read(tmp_path, b"id\ttext\n1\ta,b\n", "a.tsv") == [("1", "a,b")]
    assert read(tmp_path, gzip.compress(b"id\ttext\n1\ta,b\n"), "b.tsv.gz") == [("1", "a,b")]
    assert read(tmp_path, b"id;text\n1;a,b\n", delimiter=";") == [("1", "a,b")]


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_delimiter_that_cannot_be_one_is_refused(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(InputError, match="delimiter is"):
        read(tmp_path, b"id,text\n", delimiter=delimiter)


def test_a_mark_before_the_header_is_no_part_of_it(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfid,text\n1,a\n") == [("1", "a")]


@pytest.mark.parametrize("content", [b"", b"id,text", b"id,text\n\n\n"])
def test_a_file_without_rows_has_none(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"7,\xff", "invalid_utf8"),
        (b'7,"a\n\xed\xa0\x80"', "invalid_utf8"),
        (b"7", "unreadable"),
        (b"7,a,b", "unreadable"),
        (b'7,"a"b', "unreadable"),
        (b"7,a\rb", "unreadable"),
        (b",a", "no_id"),
        (b"\xff,a", "no_id"),
    ],
)
def test_a_bad_record_is_a_problem_in_its_place(tmp_path: Path, line: bytes, code: str) -> None:
    found = read(tmp_path, b"id,text\n1,a\n" + line + b"\n2,b\n")
    assert codes(found) == [None, code, None]
    assert found[1][0] == ("7" if code == "invalid_utf8" else "a.csv:1")
    assert found[2] == ("2", "b")


def test_an_empty_text_and_one_with_nul_are_texts(tmp_path: Path) -> None:
    assert read(tmp_path, b'id,text\n1,\n2,""\n3,a\0b\n') == [("1", ""), ("2", ""), ("3", "a\0b")]


def test_texts_of_many_megabytes_are_read(tmp_path: Path) -> None:
    text = "x\n" * 2_000_000
    assert read(tmp_path, b'id,text\n1,"' + text.encode() + b'"\n2,b\n') == [("1", text), ("2", "b")]


@pytest.mark.parametrize("rest", [b"", b"2,b\n3,c\n", b"2,b\n" * 50])
def test_a_quote_that_is_never_closed_takes_no_other_row_with_it(tmp_path: Path, rest: bytes) -> None:
    found = read(tmp_path, b'id,text\n1,a\n7,"open\n' + rest)
    assert codes(found) == [None, "unreadable"] + [None] * rest.count(b"\n")
    assert isinstance(found[1][1], Problem)
    assert found[1][1].text.startswith("line 3 ")


def test_a_file_of_quotes_that_are_never_closed_comes_to_its_end(tmp_path: Path) -> None:
    found = read(tmp_path, b"id,text\n" + b'7,"x""\n' * 20_000)
    assert 1 <= len(found) <= 20_000
    assert set(codes(found)) == {"unreadable"}


def test_a_record_beyond_the_limit_is_one_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b'1,"' + b"x\n" * 500 + b'"\n2,b\n')
    with TextLines(CorpusFile(path, "a")) as found:
        records = list(CsvRecords(found, ",", limit=1100))
        assert [len(each) for each in records if isinstance(each, list)] == [2, 2]
    with TextLines(CorpusFile(path, "a")) as found:
        records = list(CsvRecords(found, ",", limit=100))
        first = records[0]
        assert isinstance(first, Problem)
        assert "is a quote not closed?" in first.text
        assert records[-1] == ["2", "b"] or isinstance(records[-1], Problem)


def test_a_line_beyond_the_limit_is_one_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"1,a\n2," + b"x" * 500 + b"\n3,c\n")
    with TextLines(CorpusFile(path, "a"), limit=100) as found:
        first, second, third = CsvRecords(found, ",")
    assert (first, third) == (["1", "a"], ["3", "c"])
    assert isinstance(second, Problem)


def test_the_limit_of_the_process_is_only_ever_raised(tmp_path: Path) -> None:
    before = csv.field_size_limit(1 << 40)
    try:
        assert read(tmp_path, b"id,text\n1,a\n") == [("1", "a")]
        assert csv.field_size_limit() == 1 << 40
    finally:
        csv.field_size_limit(before)


def test_a_column_that_is_not_in_the_header_is_said_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.csv has no column 'body': there is id, text; .*--column"):
        read(tmp_path, b"id,text\n1,a\n", column="body")
    with pytest.raises(SourceError, match=r"there is id;text; .* or say what stands between fields \(--delimiter\)"):
        read(tmp_path, b"id;text\n1;a\n")


def test_a_name_that_two_columns_have_is_refused_unless_neither_is_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="more than one column 'text'"):
        read(tmp_path, b"id,text,text\n1,a,b\n")
    assert read(tmp_path, b"id,text,x,x\n1,a,b,c\n") == [("1", "a")]


def test_a_header_that_is_no_csv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no header that can be read"):
        read(tmp_path, b'"id"x,text\n1,a\n')
    with pytest.raises(SourceError, match=r"no column 'text': there is \\udcff"):
        read(tmp_path, b"\xff,b\n1,a\n")


def test_a_row_of_another_length_is_told_by_its_line(tmp_path: Path) -> None:
    rows_read = read(tmp_path, b'id,text\n1,"a\nb"\n\n2\n3,c,d\n')
    assert [each.text for _, each in rows_read if isinstance(each, Problem)] == [
        "line 5 has 1 field, the header 2",
        "line 6 has 3 fields, the header 2",
    ]
