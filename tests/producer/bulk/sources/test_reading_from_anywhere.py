"""Whoever goes on in the middle of a shard finds the rows that whoever began it would have found."""

import gzip
import json
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from headrace.bulk.rows import Problem
from headrace.bulk.source import Source
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.bulk.sources.csv import Csv
from headrace.bulk.sources.file_source import FileSource, Format
from headrace.bulk.sources.jsonl import Jsonl
from headrace.bulk.sources.open_source import open_source
from headrace.bulk.sources.parquet import Parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from .corpora import rows, strings

COLUMNS = Columns("text", "id")
FIRST = st.integers(0, 60)

# Lines as files have them: good, bad and blank.
JSON_LINE = st.one_of(
    st.builds(
        lambda id_, text: json.dumps({"id": id_, "text": text}).encode(),
        st.integers(-3, 3) | st.text(max_size=3) | st.none() | st.booleans(),
        st.text(st.characters(), max_size=20) | st.none() | st.integers(),
    ),
    st.binary(max_size=30),
    st.sampled_from([b"", b" ", b"\r", b"{", b'{"text": "\xff"}', b"\xef\xbb\xbf"]),
)
CSV_LINE = st.one_of(
    st.builds(lambda a, b: a + b"," + b, st.sampled_from([b"1", b"", b'"x"', b'"']), st.binary(max_size=10)),
    st.text('",\nab\r', max_size=12).map(str.encode),
)
VALUE = st.none() | st.sampled_from([b"a", b"", b"\xff", "ä".encode(), b"\0", b"x" * 50])


def file_source(folder: str, content: bytes, kind: Format) -> Source:
    path = Path(folder, "corpus")
    path.write_bytes(content)
    return FileSource("corpus", [CorpusFile(path, "corpus")], kind)


def check(source: Source, first: int) -> None:
    for shard in range(len(source.shards())):
        assert rows(source, shard, first) == rows(source, shard)[first:]


@given(st.lists(JSON_LINE, max_size=50), FIRST, st.sampled_from([1, 10, 100, 1 << 30]), st.booleans())
def test_json_lines(many: list[bytes], first: int, shard_bytes: int, is_packed: bool) -> None:
    # At least one good row: a file without any is refused for its columns.
    content = b"\n".join([b'{"id": 1, "text": "a"}', *many])
    with tempfile.TemporaryDirectory() as folder:
        kind = Jsonl(COLUMNS, shard_bytes=shard_bytes)
        check(file_source(folder, gzip.compress(content) if is_packed else content, kind), first)


def told(text: str | Problem) -> str:
    return text.code if isinstance(text, Problem) else text


@given(st.lists(JSON_LINE, max_size=50), st.integers(1, 200))
def test_json_lines_in_several_shards_are_those_of_one(many: list[bytes], shard_bytes: int) -> None:
    content = b"\n".join([b'{"id": 1, "text": "a"}', *many])
    with tempfile.TemporaryDirectory() as folder:
        whole = rows(file_source(folder, content, Jsonl(COLUMNS)))
        cut = file_source(folder, content, Jsonl(COLUMNS, shard_bytes=shard_bytes))
        parts = [row for shard in range(len(cut.shards())) for row in rows(cut, shard)]
        # Problems are named by where they are, which is another place.
        assert [told(text) for _, text in whole] == [told(text) for _, text in parts]


@given(st.lists(CSV_LINE, max_size=50), FIRST)
def test_csv(many: list[bytes], first: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(file_source(folder, b"id,text\n" + b"\n".join(many), Csv(COLUMNS)), first)


@given(st.lists(st.tuples(VALUE, VALUE), max_size=50), FIRST, st.integers(1, 20), st.sampled_from([1, 300, 1 << 30]))
def test_parquet(many: list[tuple[bytes | None, bytes | None]], first: int, group: int, shard_bytes: int) -> None:
    table = pa.table({"id": strings(*(id_ for id_, _ in many)), "text": strings(*(text for _, text in many))})
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/written", row_group_size=group)
        content = Path(folder, "written").read_bytes()
        check(file_source(folder, content, Parquet(COLUMNS, shard_bytes=shard_bytes)), first)


@given(st.lists(st.tuples(VALUE, VALUE), max_size=50), FIRST, st.integers(1, 20))
def test_arrow(many: list[tuple[bytes | None, bytes | None]], first: int, batch: int) -> None:
    table = pa.table({"id": strings(*(id_ for id_, _ in many)), "text": strings(*(text for _, text in many))})
    with tempfile.TemporaryDirectory() as folder:
        with pa.OSFile(f"{folder}/a.arrow", "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=batch)
        check(open_source(f"{folder}/a.arrow", id_column="id"), first)


@pytest.mark.parametrize("shards", [1, 3])
@settings(max_examples=25, deadline=None)
@given(
    many=st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | st.text(max_size=3)), max_size=30), first=FIRST
)
def test_a_query(shards: int, many: list[tuple[int | None, str | None]], first: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(f"{folder}/db") as connection:
            connection.execute("CREATE TABLE t (id BIGINT, text VARCHAR)")
            if many:
                connection.executemany("INSERT INTO t VALUES (?, ?)", many)
        query = f"duckdb:ATTACH '{folder}/db' AS db (READ_ONLY); FROM db.t"
        check(open_source(query, id_column="id", shards=shards), first)
