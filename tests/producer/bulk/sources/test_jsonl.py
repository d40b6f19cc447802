"""JSON lines, good and bad."""

import gzip
import json
from hashlib import sha512
from pathlib import Path

import pyarrow as pa
import pytest
from headrace.bulk.rows import Problem
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.bulk.sources.file_source import FileSource
from headrace.bulk.sources.jsonl import Jsonl
from headrace.bulk.sources.open_source import open_source
from headrace.bulk.sources.text_lines import LineTooLong, TextLines
from headrace.errors import SourceError

from .corpora import all_rows, codes, lines, rows, written

GOOD = lines({"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "c"})


def test_a_row_has_its_id_and_its_text(tmp_path: Path) -> None:
    source = open_source(str(written(tmp_path / "a.jsonl", GOOD)), id_column="id")
    assert rows(source) == [(1, "a"), (2, "b"), (3, "c")]
    assert rows(source, first=2) == [(3, "c")]
    assert rows(source, first=3) == rows(source, first=99) == []


def test_without_a_column_of_ids_a_row_is_named_by_its_file_and_position(tmp_path: Path) -> None:
    written(tmp_path / "in" / "x" / "a.jsonl", GOOD)
    written(tmp_path / "in" / "b.jsonl", GOOD)
    named = [id_ for id_, _ in all_rows(open_source(str(tmp_path / "in")))]
    assert named == ["b.jsonl:0", "b.jsonl:1", "b.jsonl:2", "x/a.jsonl:0", "x/a.jsonl:1", "x/a.jsonl:2"]


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_marks_line_ends_and_blank_lines_are_no_part_of_a_row(tmp_path: Path, ends: bytes, mark: bytes) -> None:
    content = mark + ends + GOOD.replace(b"\n", ends + b" \t" + ends)
    source = open_source(str(written(tmp_path / "a.jsonl", content)), id_column="id")
    assert rows(source) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_last_line_needs_no_end(tmp_path: Path) -> None:
    source = open_source(str(written(tmp_path / "a.jsonl", GOOD[:-1])), id_column="id")
    assert rows(source)[-1] == (3, "c")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_a_file_without_rows_has_none(tmp_path: Path, content: bytes) -> None:
    source = open_source(str(written(tmp_path / "a.jsonl", content)), id_column="id")
    assert len(source.shards()) == 1
    assert rows(source) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"id": 7, "text": null}', "null"),
        (b'{"id": 7}', "null"),
        (b'{"id": 7, "text": 5}', "not_a_string"),
        (b'{"id": 7, "text": {"a": []}}', "not_a_string"),
        (b'{"id": 7, "text": true}', "not_a_string"),
        (b'{"id": 7, "text": NaN}', "not_a_string"),
        (b'{"id": 7, "text": "\xff"}', "invalid_utf8"),
        (b'{"id": 7, "text": "\xed\xa0\x80"}', "invalid_utf8"),
        (b'{"id": 7, "text": "a', "unreadable"),
        (b"garbage", "unreadable"),
        (b"\x00\x00", "unreadable"),
        (b"[1, 2]", "unreadable"),
        (b'"text"', "unreadable"),
        (b"null", "unreadable"),
        (b"[" * 100_000, "unreadable"),
        (b'{"id": ' + b"9" * 5000 + b"}", "unreadable"),
        (b'{"text": "a"}', "no_id"),
        (b'{"id": null, "text": "a"}', "no_id"),
        (b'{"id": true, "text": "a"}', "no_id"),
        (b'{"id": 1.0, "text": "a"}', "no_id"),
        (b'{"id": "7", "text": "a"}', "no_id"),
        (b'{"id": "", "text": "a"}', "no_id"),
        (b'{"id": 9223372036854775808, "text": "a"}', "no_id"),
        (b'{"id": ' + b"9" * 1000 + b', "text": "a"}', "no_id"),
        (b'{"id": [], "text": "a"}', "no_id"),
    ],
)
def test_a_bad_line_is_a_problem_in_its_place(tmp_path: Path, line: bytes, code: str) -> None:
    source = open_source(str(written(tmp_path / "a.jsonl", GOOD + line + b"\n" + GOOD)), id_column="id")
    found = rows(source)
    assert codes(found) == [None, None, None, code, None, None, None]
    assert found[3][0] == (7 if code in {"null", "not_a_string", "invalid_utf8"} else "a.jsonl:3")
    assert rows(source, first=3) == found[3:]


def test_a_bad_line_is_told_by_its_number_in_the_file(tmp_path: Path) -> None:
    content = b'{"id": 1, "text": "a"}\n\n\n{\n[1]\n{"id": 2, "text": "\xff"}\n'
    source = open_source(str(written(tmp_path / "a.jsonl", content)), id_column="id")
    texts = [problem.text for _, problem in rows(source, first=1) if isinstance(problem, Problem)]
    assert texts == [
        "line 4 is not JSON: Expecting property name enclosed in double quotes (character 2)",
        "line 5 is a JSON list: an object is wanted",
        "byte 19 of line 6 is 0xff: not UTF-8",
    ]


def test_an_id_that_is_no_utf8_itself_names_no_row(tmp_path: Path) -> None:
    source = open_source(
        str(written(tmp_path / "a.jsonl", b'{"id": "x", "text": "a"}\n{"id": "\xff", "text": "a"}\n')), id_column="id"
    )
    assert [row_id for row_id, _ in rows(source)] == ["x", "a.jsonl:1"]


def test_the_ends_of_what_64_bits_hold_are_ids(tmp_path: Path) -> None:
    ids = [-(1 << 63), (1 << 63) - 1, 0]
    source = open_source(
        str(written(tmp_path / "a.jsonl", lines(*({"id": each, "text": ""} for each in ids)))), id_column="id"
    )
    assert rows(source) == [(each, "") for each in ids]


def test_half_of_a_surrogate_pair_becomes_what_the_client_makes_of_it(tmp_path: Path) -> None:
    content = b'{"text": "a\\ud800b"}\n{"text": "\\ud83d\\ude00"}\n{"text": "nul\\u0000"}\n'
    source = open_source(str(written(tmp_path / "a.jsonl", content)))
    assert [text for _, text in rows(source)] == ["a\ufffdb", "\U0001f600", "nul\0"]


def test_half_of_a_surrogate_pair_is_no_id(tmp_path: Path) -> None:
    content = b'{"id": "a", "text": "x"}\n{"id": "\\ud800", "text": "x"}\n'
    assert codes(rows(open_source(str(written(tmp_path / "a.jsonl", content)), id_column="id"))) == [None, "no_id"]


def test_ids_of_another_kind_than_the_first_are_problems_in_all_files_alike(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", b"broken\n" + lines({"id": "x", "text": "a"}))
    written(tmp_path / "b.jsonl", lines({"id": 1, "text": "a"}, {"id": "1", "text": "a"}))
    assert codes(all_rows(open_source(str(tmp_path), id_column="id"))) == ["unreadable", None, "no_id", None]


def test_a_field_of_a_field_has_a_path_unless_there_is_a_field_of_that_name(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        lines({"meta": {"text": "inner"}}, {"meta.text": "outer", "meta": {"text": "inner"}}, {"meta": "text"}),
    )
    found = rows(open_source(str(path), column="meta.text"))
    assert [text if isinstance(text, str) else text.code for _, text in found] == ["inner", "outer", "null"]


def test_a_column_that_no_row_has_is_said_at_once(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", lines({"body": "a", "key": 1}))
    with pytest.raises(SourceError, match=r"a\.jsonl has no column 'text': there is body, key; .*--column"):
        open_source(str(path)).shards()
    with pytest.raises(SourceError, match=r"no column 'id': there is body, key; .*--id"):
        open_source(str(path), column="body", id_column="id").shards()


def test_a_json_array_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", json.dumps([{"text": "a"}]).encode())
    with pytest.raises(SourceError, match=r"JSON array: write one object a line"):
        open_source(str(path)).shards()


def test_utf16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", GOOD.decode().encode("utf-16"))
    with pytest.raises(SourceError, match="UTF-16: convert it"):
        open_source(str(path)).shards()


@pytest.mark.parametrize("suffix", [".gz", ".zst", ""])
@pytest.mark.parametrize("how", ["gzip", "zstd", "plain"])
def test_what_is_compressed_is_read_whatever_its_name(tmp_path: Path, suffix: str, how: str) -> None:
    # Two frames one after the other, as compressors that work in parallel write them.
    packed = {
        "gzip": gzip.compress(GOOD) * 2,
        "zstd": pa.compress(GOOD, "zstd", asbytes=True) * 2,
        "plain": GOOD * 2,
    }[how]
    path = written(tmp_path / f"a.jsonl{suffix}", packed)
    if (how, suffix) == ("plain", ".zst"):
        with pytest.raises(SourceError, match="see that it is whole"):
            open_source(str(path), id_column="id").shards()
        return
    source = open_source(str(path), id_column="id")
    assert rows(source) == [(1, "a"), (2, "b"), (3, "c")] * 2
    assert rows(source, first=4) == [(2, "b"), (3, "c")]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_that_ends_too_early_gives_what_it_has_and_then_says_so(tmp_path: Path, suffix: str) -> None:
    many = lines(*({"text": sha512(str(at).encode()).hexdigest() * 4} for at in range(5000)))
    packed = gzip.compress(many) if suffix == ".gz" else pa.compress(many, "zstd", asbytes=True)
    source = open_source(str(written(tmp_path / f"a.jsonl{suffix}", packed[: len(packed) * 3 // 4])))
    assert len(source.shards()) == 1
    with pytest.raises(SourceError, match=r"cannot be read after line \d+ .*see that it is whole"):
        rows(source)


def test_a_file_of_no_bytes_is_empty_whatever_its_name(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.zst"):
        written(tmp_path / name, b"")
    assert all_rows(open_source(str(tmp_path))) == []


def test_a_line_of_any_length_costs_no_more_memory_than_the_limit_and_is_one_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b"12\n" + b"x" * 5_000_000 + b"\n123456789\n1234567890\n\n" + b"y" * 11)
    with TextLines(CorpusFile(path, "a"), limit=10) as found:
        assert next(found) == b"12\n"
        with pytest.raises(LineTooLong, match="line 2 is longer than 10 bytes"):
            next(found)
        assert [next(found), next(found), next(found)] == [b"123456789\n", b"1234567890\n", b"\n"]
        with pytest.raises(LineTooLong, match="line 6 is longer than 10 bytes"):
            next(found)
        assert next(found, None) is None


def test_a_line_that_is_too_long_harms_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextLines.__init__, "__kwdefaults__", {"limit": 100})
    long = lines({"id": 4, "text": "x" * 200})
    source = open_source(str(written(tmp_path / "a.jsonl", GOOD + long + GOOD)), id_column="id")
    found = rows(source)
    assert codes(found) == [None, None, None, "unreadable", None, None, None]
    assert isinstance(found[3][1], Problem)
    assert "line 4 is longer than 100 bytes" in found[3][1].text


@pytest.mark.parametrize("shard_bytes", [1, 7, 26, 100, 1000])
def test_a_large_file_is_several_shards_that_have_each_line_once(tmp_path: Path, shard_bytes: int) -> None:
    content = b"".join(lines({"id": at, "text": "x" * (at % 40)}) + b"\n" * (at % 3) for at in range(30))
    path = written(tmp_path / "a.jsonl", b"\xef\xbb\xbf" + content)
    source = FileSource("corpus", [CorpusFile(path, "a.jsonl")], Jsonl(Columns("text", "id"), shard_bytes=shard_bytes))
    assert [id_ for id_, _ in all_rows(source)] == list(range(30))
    assert len({shard.state for shard in source.shards()}) == len(source.shards())
    assert len(source.shards()) > 1 or shard_bytes == 1000


def test_a_compressed_file_is_never_cut(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl.gz", gzip.compress(GOOD))
    source = FileSource("corpus", [CorpusFile(path, "a")], Jsonl(Columns("text", "id"), shard_bytes=1))
    assert len(source.shards()) == 1
    assert rows(source) == [(1, "a"), (2, "b"), (3, "c")]
