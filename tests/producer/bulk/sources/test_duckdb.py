"""Queries of DuckDB."""

from pathlib import Path

import duckdb
import pytest
from headrace.bulk.sources.open_source import open_source
from headrace.errors import InputError, SourceError

from .corpora import Row, all_rows, codes, rows

UUIDS = "-0000-0000-0000-000000000000"
TEN = "SELECT range AS id, 't' || range AS text FROM range(10) ORDER BY hash(range)"


def read(query: str, **options: object) -> list[Row]:
    return rows(open_source(f"duckdb:{query}", **{"id_column": "id", **options}))  # type: ignore[arg-type]  # a dict of options has one type


def test_rows_come_in_the_order_of_their_ids_whatever_the_query_says() -> None:
    source = open_source(f"duckdb:{TEN}", id_column="id")
    (shard,) = source.shards()
    assert (shard.name, shard.num_rows) == ("query", 10)
    for first in (0, 1, 9, 10, 99):
        assert rows(source, first=first) == [(at, f"t{at}") for at in range(first, 10)]


def test_ids_that_are_there_twice_and_none_at_all_have_their_places_too() -> None:
    query = "FROM (VALUES (2, 'b'), (1, 'z'), (1, 'a'), (NULL, 'q'), (1, NULL), (NULL, 'p'), (3, 'c')) t(id, text)"
    source = open_source(f"duckdb:{query}", id_column="id")
    found = rows(source)
    assert [id_ for id_, _ in found] == [1, 1, 1, 2, 3, "query:5", "query:6"]
    assert codes(found) == [None, None, "null", None, None, "no_id", "no_id"]
    assert [text for _, text in found[:2]] == ["a", "z"]
    for first in range(9):
        assert rows(source, first=first) == found[first:]


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("range::UTINYINT", [0, 1, 2]),
        ("range::HUGEINT", [0, 1, 2]),
        ("range::UBIGINT + 9223372036854775806", [(1 << 63) - 2, (1 << 63) - 1, "query:2"]),
        ("range::DECIMAL(20, 0)", [0, 1, 2]),
        ("(CASE range WHEN 0 THEN 'z' WHEN 1 THEN 'a' ELSE 'm' END)::ENUM('z', 'm', 'a')", ["a", "m", "z"]),
        ("('0000000' || range || UUIDS)::UUID", [f"0000000{n}{UUIDS}" for n in range(3)]),
        ("('x' || range)::BLOB", ["x0", "x1", "x2"]),
        ("'ä''\"' || range", ["ä'\"0", "ä'\"1", "ä'\"2"]),
    ],
)
def test_ids_may_be_of_many_types(id_: str, expected: list[object]) -> None:
    source = open_source(
        f"duckdb:SELECT {id_.replace('UUIDS', repr(UUIDS))} AS id, 'a' AS text FROM range(3)",  # noqa: S608 - the user's own query
        id_column="id",
    )
    assert [each for each, _ in rows(source)] == expected
    for first in range(4):
        assert [each for each, _ in rows(source, first=first)] == expected[first:]


@pytest.mark.parametrize("kind", ["DOUBLE", "BOOLEAN", "DATE", "DECIMAL(9, 2)", "INTEGER[]"])
def test_a_column_that_cannot_be_ids_is_refused(kind: str) -> None:
    with pytest.raises(SourceError, match=r"column 'id' of the query is of type .* CAST it"):
        read(f"SELECT NULL::{kind} AS id, 'a' AS text")


def test_a_column_that_cannot_be_texts_is_refused() -> None:
    with pytest.raises(SourceError, match="column 'text' of the query is of type INTEGER: CAST it to VARCHAR"):
        read("SELECT 1 AS id, 1 AS text")


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_shards_have_each_row_once_and_do_not_depend_on_anything_but_the_id(shards: int) -> None:
    source = open_source(f"duckdb:{TEN}", id_column="id", shards=shards)
    found = all_rows(source)
    assert sorted(id_ for id_, _ in found if isinstance(id_, int)) == list(range(10))
    assert [len(rows(source, shard)) for shard in range(shards)] == [each.num_rows for each in source.shards()]
    assert len({shard.name for shard in source.shards()}) == shards
    assert found == all_rows(open_source(f"duckdb:{TEN}", id_column="id", shards=shards))
    for shard in range(shards):
        assert rows(source, shard, first=1) == rows(source, shard)[1:]


@pytest.mark.parametrize(
    "change", ["'T' || range", "CASE range WHEN 3 THEN NULL ELSE 't' || range END", "'t' || (range + 1)"]
)
def test_the_state_tells_other_rows_but_not_another_order(change: str) -> None:
    def state(query: str) -> str:
        return open_source(f"duckdb:{query}", id_column="id").shards()[0].state

    before = state(TEN)
    assert state(TEN.replace("hash(range)", "range")) == before
    assert state(TEN.replace("'t' || range", change)) != before
    assert state(TEN.replace("range(10)", "range(11)")) != before
    assert state(f"{TEN.split('ORDER', maxsplit=1)[0]} UNION ALL SELECT 3, 't3'") != before


def test_statements_before_the_select_are_run_each_time(tmp_path: Path) -> None:
    place = tmp_path / "it's.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE docs AS SELECT 1 AS id, 'a' AS text")
    quoted = str(place).replace("'", "''")
    query = f"SET threads = 1; ATTACH '{quoted}' AS there (READ_ONLY); SELECT * FROM there.docs; -- the end"  # noqa: S608 - the user's own query
    assert read(query) == read(query) == [(1, "a")]


@pytest.mark.parametrize("end", [" -- why", " ; ", ";;", "; -- the end", " /* the end */;\n"])
def test_a_query_may_end_as_people_end_them(end: str) -> None:
    assert read(f"WITH x AS (SELECT 1 AS id, 'a' AS text) FROM x{end}") == [(1, "a")]  # noqa: S608 - the user's own query


def test_columns_may_have_any_name() -> None:
    assert read('SELECT 1 AS "a ""b""", \'x\' AS "select"', id_column='a "b"', column="select") == [(1, "x")]


def test_a_query_needs_no_mark_where_its_kind_is_told() -> None:
    assert rows(open_source(TEN, id_column="id", kind="duckdb")) == read(TEN)
    assert rows(open_source(f"duckdb:{TEN}", id_column="id", kind="duckdb")) == read(TEN)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELEC 1", "no SQL to DuckDB"),
        ("", "does not end in a SELECT"),
        ("SELECT 1 AS id, 'a' AS text; DROP TABLE x", "does not end in a SELECT"),
    ],
)
def test_what_is_no_query_is_refused(query: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        open_source(f"duckdb:{query}", id_column="id")


@pytest.mark.parametrize("shards", [0, -1])
def test_fewer_shards_than_one_are_refused(shards: int) -> None:
    with pytest.raises(InputError, match=f"shards is {shards}"):
        open_source(f"duckdb:{TEN}", id_column="id", shards=shards)


def test_a_query_needs_ids() -> None:
    with pytest.raises(InputError, match=r"gives its rows in any order: .*--id"):
        open_source(f"duckdb:{TEN}")


def test_a_column_that_the_query_has_not_is_said_with_those_that_it_has() -> None:
    with pytest.raises(SourceError, match=r"the query has no column 'body': there is id, text; .*--column"):
        read(TEN, column="body")


@pytest.mark.parametrize("query", ["SELECT * FROM nowhere", "SELECT id, text FROM read_parquet('/nowhere/*.parquet')"])
def test_a_query_that_cannot_be_run_says_what_duckdb_says(query: str) -> None:
    with pytest.raises(SourceError, match=r"DuckDB cannot run the query: .*nowhere"):
        read(query)


def test_an_error_in_the_middle_of_the_rows_is_one_of_the_source() -> None:
    with pytest.raises(SourceError, match="DuckDB cannot run the query"):
        read("SELECT range AS id, CASE WHEN range = 99999 THEN error('oh') ELSE 'a' END AS text FROM range(100000)")


def test_no_password_is_in_an_error() -> None:
    with pytest.raises(SourceError) as caught:
        read("SELECT error('at postgresql://me:hunter2@host/db, password=hunter2 and key: hunter2') AS text, 1 AS id")
    assert "hunter2" not in str(caught.value)
    assert "me:***@host/db" in str(caught.value)


def test_the_name_of_a_query_has_no_password_in_it() -> None:
    before = "CREATE SECRET s (TYPE s3, KEY_ID 'me', SECRET 'hunter2'); "
    query = "SELECT * FROM postgres_scan('host=db password=hunter2 user=me', 'public', 'docs')"
    source = open_source(f"duckdb:{before}{query}", id_column="id")
    assert source.name == "duckdb:" + query.replace("hunter2", "***")


def test_a_reader_that_stops_early_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = open_source(f"duckdb:SELECT range AS id, 'a' AS text FROM range(50000)", id_column="id")  # noqa: F541
    reading = source.read(0, 0)
    next(iter(reading))
    assert list(tmp_path.iterdir())
    reading.close()  # type: ignore[attr-defined]  # a generator, which the protocol does not promise
    assert not list(tmp_path.iterdir())
