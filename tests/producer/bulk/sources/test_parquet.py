"""Parquet: row groups, types and bad values."""

import decimal
import random
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from headrace.bulk.rows import Problem
from headrace.bulk.sources import arrow_values
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.bulk.sources.file_source import FileSource
from headrace.bulk.sources.open_source import open_source
from headrace.bulk.sources.parquet import Parquet
from headrace.errors import SourceError

from .corpora import Row, all_rows, codes, rows, strings, written


def read(tmp_path: Path, columns: dict[str, object], column: str = "text", first: int = 0) -> list[Row]:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    return rows(open_source(str(path), column=column, id_column="id"), first=first)


def test_row_groups_are_read_one_after_the_other_and_known_beforehand(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"id": range(10_000), "text": [f"t{at}" for at in range(10_000)]}), path, row_group_size=999
    )
    source = open_source(str(path), id_column="id")
    (shard,) = source.shards()
    assert shard.num_rows == 10_000
    assert rows(source) == [(at, f"t{at}") for at in range(10_000)]
    for first in (1, 998, 999, 1000, 9_999, 10_000, 20_000):
        assert rows(source, first=first) == [(at, f"t{at}") for at in range(first, 10_000)]


def test_a_large_file_is_several_shards_whose_rows_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"t{at}" for at in range(100)]}), path, row_group_size=7)
    whole = open_source(str(path))
    cut = FileSource("corpus", [CorpusFile(path, "a.parquet")], Parquet(Columns("text"), shard_bytes=200))
    assert len(cut.shards()) > 3
    assert sum(shard.num_rows or 0 for shard in cut.shards()) == 100
    assert all_rows(cut) == rows(whole)
    assert rows(cut, shard=1, first=2) == rows(cut, shard=1)[2:]
    assert len({(shard.name, shard.state) for shard in cut.shards()}) == len(cut.shards())


@pytest.mark.parametrize("groups", [0, 1])
def test_a_file_without_rows_has_none(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(groups):
            writer.write_table(table)
    source = open_source(str(path), id_column="id")
    assert source.shards()[0].num_rows == 0
    assert rows(source) == []


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_texts_and_ids_may_be_strings_of_every_kind(tmp_path: Path, kind: pa.DataType) -> None:
    values = ["a", "ä", "", None, "a", "nul\0", "x" * 100]
    found = read(tmp_path, {"id": pa.array(values).cast(kind), "text": pa.array(values).cast(kind)})
    assert codes(found) == [None, None, "no_id", "no_id", None, None, None]
    assert [id_ for id_, _ in found] == ["a", "ä", "a.parquet:2", "a.parquet:3", "a", "nul\0", "x" * 100]
    numbered = read(tmp_path, {"id": range(7), "text": pa.array(values).cast(kind)}, first=1)
    assert codes(numbered) == [None, None, "null", None, None, None]
    assert [text for _, text in numbered if isinstance(text, str)] == ["ä", "", "a", "nul\0", "x" * 100]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_bytes_that_are_no_utf8_harm_their_own_row_only(tmp_path: Path, kind: pa.DataType) -> None:
    bad = strings(b"good", b"b\xffd", None, b"\xed\xa0\x80", "gö".encode())
    bad = bad.cast(pa.binary()).cast({pa.string_view(): pa.binary_view()}.get(kind, pa.large_binary()))
    texts = bad.view(kind) if kind != pa.string() else strings(b"good", b"b\xffd", None, b"\xed\xa0\x80", "gö".encode())
    found = read(tmp_path, {"id": range(5), "text": texts})
    assert codes(found) == [None, "invalid_utf8", "null", "invalid_utf8", None]
    assert [id_ for id_, _ in found] == [0, 1, 2, 3, 4]
    assert [found[0][1], found[4][1]] == ["good", "gö"]
    assert isinstance(found[1][1], Problem)
    assert "byte 1 of the text is 0xff" in found[1][1].text


def test_an_id_that_is_no_utf8_is_none(tmp_path: Path) -> None:
    found = read(tmp_path, {"id": strings(b"a", b"\xff"), "text": ["x", "y"]})
    assert codes(found) == [None, "no_id"]
    assert found[1][0] == "a.parquet:1"


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64(), pa.decimal128(20, 0)], ids=str
)
def test_ids_may_be_integers_of_every_kind(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array([3, None, 1], pa.int64()).cast(kind)
    found = read(tmp_path, {"id": values, "text": ["a", "b", "c"]})
    assert found[0] == (3, "a")
    assert found[2] == (1, "c")
    assert codes(found) == [None, "no_id", None]
    assert read(tmp_path, {"id": pa.array([3, 1], pa.int64()).cast(kind), "text": ["a", "c"]}) == [(3, "a"), (1, "c")]


def test_an_integer_that_no_sink_holds_is_no_id(tmp_path: Path) -> None:
    found = read(tmp_path, {"id": pa.array([1, 1 << 63, (1 << 63) - 1], pa.uint64()), "text": ["a", "b", "c"]})
    assert codes(found) == [None, "no_id", None]
    big = pa.array([decimal.Decimal(10) ** 30, decimal.Decimal(5)], pa.decimal128(38, 0))
    assert codes(read(tmp_path, {"id": big, "text": ["a", "b"]})) == ["no_id", None]


def test_uuids_are_ids_as_they_are_written(tmp_path: Path) -> None:
    one = uuid.UUID(int=7)
    found = read(tmp_path, {"id": pa.array([one.bytes, None], pa.uuid()), "text": ["a", "b"]})
    assert found[0] == (str(one), "a")
    assert codes(found) == [None, "no_id"]


@pytest.mark.parametrize(
    "column",
    [pa.array([True]), pa.array([1.5]), pa.array([[1]]), pa.array([decimal.Decimal("1.5")]), pa.array([{"a": 1}])],
    ids=lambda array: str(array.type),
)
def test_a_column_that_cannot_be_ids_is_refused(tmp_path: Path, column: pa.Array) -> None:
    with pytest.raises(SourceError, match=r"column 'id' of .* is of type .*: ids are integers or strings"):
        read(tmp_path, {"id": column, "text": ["a"]})


def test_a_column_that_cannot_be_texts_is_refused_and_one_of_nulls_is_not(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"column 'text' of .* is of type int64: texts are strings"):
        read(tmp_path, {"id": [1], "text": [1]})
    assert codes(read(tmp_path, {"id": [1, 2], "text": pa.nulls(2)})) == ["null", "null"]
    assert codes(read(tmp_path, {"id": pa.nulls(1), "text": ["a"]})) == ["no_id"]


def test_a_field_of_a_struct_is_null_where_the_struct_is(tmp_path: Path) -> None:
    meta = pa.array([{"text": "a", "n": 1}, None, {"text": None, "n": 2}, {"text": "d", "n": 3}])
    assert codes(read(tmp_path, {"id": range(4), "meta": meta}, "meta.text")) == [None, "null", "null", None]
    assert read(tmp_path, {"id": range(4), "meta": meta}, "meta.text", first=3) == [(3, "d")]
    with pytest.raises(SourceError, match=r"no column 'meta\.x': there is id, meta, meta\.text, meta\.n; "):
        read(tmp_path, {"id": range(4), "meta": meta}, "meta.x")


def test_a_column_goes_before_a_field_of_the_same_path(tmp_path: Path) -> None:
    columns = {"id": [1], "meta": pa.array([{"text": "inner"}]), "meta.text": ["outer"]}
    assert read(tmp_path, columns, "meta.text") == [(1, "outer")]


def test_a_name_that_two_columns_have_is_refused_unless_neither_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([["a"], ["b"], [1]], names=["text", "text", "id"]), path)
    with pytest.raises(SourceError, match="more than one column 'text'"):
        open_source(str(path), id_column="id").shards()
    pq.write_table(pa.table([["a"], ["b"], [1], ["t"]], names=["x", "x", "id", "text"]), path)
    assert rows(open_source(str(path), id_column="id")) == [(1, "t")]


def test_files_whose_ids_are_of_two_kinds_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "text": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["1"], "text": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"type int in .*a\.parquet and str in .*b\.parquet"):
        open_source(str(tmp_path), id_column="id").shards()


def test_a_row_group_of_long_texts_is_read_a_few_rows_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [str(at) * 1_000_000 for at in range(60)]
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=False, compression="zstd")
    source = open_source(str(path))
    parts = list(source.read(0, 0))
    assert [text for part in parts for text in part.texts] == texts
    assert max(len(part) for part in parts) < 30


def test_a_text_beyond_all_measure_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_values, "MAX_BYTES", 10)
    found = read(tmp_path, {"id": [1, 2, 3], "text": ["a" * 10, "a" * 11, None]})
    assert codes(found) == [None, "too_long", "null"]


@pytest.mark.parametrize("cut", [0, 3, 50])
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, cut: int) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    path = written(tmp_path / "a.parquet", (tmp_path / "a.parquet").read_bytes()[:cut])
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read .*see that it is whole"):
        open_source(str(path)).shards()


def test_a_damaged_page_ends_the_shard_with_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"text {at}" for at in range(1000)]}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[100:300] = bytes(200)
    path.write_bytes(content)
    source = open_source(str(path))
    assert source.shards()[0].num_rows == 1000
    with pytest.raises(SourceError, match="see that it is whole"):
        rows(source)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_gives_rows_or_an_error_and_nothing_else(tmp_path: Path, seed: int) -> None:
    texts = pa.array([f"text {at}" for at in range(50)])
    table = pa.table({"id": range(50), "text": texts, "meta": pa.array([{"text": str(at)} for at in range(50)])})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=20, use_dictionary=seed % 2 == 0, compression="none")
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)  # noqa: S311 - damage that repeats
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(8, len(content))] = chance.randrange(256)
    path.write_bytes(content)
    for column in ("text", "meta.text"):
        try:
            rows(open_source(str(path), column=column, id_column="id"))
        except SourceError as error:
            assert "a.parquet" in str(error)  # noqa: PT017 - the file may be whole enough to be read


def test_ids_may_be_the_texts_themselves(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    assert rows(open_source(str(tmp_path / "a.parquet"), id_column="text")) == [("a", "a"), ("b", "b")]
