"""A table of Postgres as a sink, and what only it can get wrong."""

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import psycopg
import pytest
from headrace.bulk.card import Card
from headrace.bulk.sinks import postgres_server
from headrace.bulk.sinks.postgres import PostgresSink
from headrace.errors import CardMismatch, SinkError

from ..finite_parts import part
from ..parts import CARD, assert_holds, card
from ..postgres import Database


def opened(database: Database, table: str = "vectors", of: Card = CARD) -> PostgresSink:
    sink = PostgresSink(database.url, table)
    try:
        sink.open(of, replace=False)
    except SinkError:
        sink.close()
        raise
    return sink


@pytest.fixture
def sink(database: Database) -> Iterator[PostgresSink]:
    made = opened(database)
    yield made
    made.close()


def test_a_reader_of_sql_sees_ids_hashes_vectors_and_texts(database: Database, sink: PostgresSink) -> None:
    one = part(["a", "b"], with_texts=True)
    sink.write(one)
    assert database.run(
        "SELECT column_name, udt_name FROM information_schema.columns WHERE table_name = 'vectors' ORDER BY 1"
    ) == [("embedding", "vector"), ("hash", "bytea"), ("id", "text"), ("text", "text")]
    assert database.run("SELECT id, hash, text FROM vectors ORDER BY id") == [
        ("a", one.hashes[0], "text 0 of a"),
        ("b", one.hashes[1], "text 0 of b"),
    ]
    assert database.run("SELECT id FROM vectors ORDER BY embedding <#> (SELECT embedding FROM vectors WHERE id = 'b')")


@pytest.mark.parametrize(
    ("of", "index"),
    [
        (card("f32"), "(embedding vector_ip_ops)"),
        (card("f16"), "(embedding halfvec_ip_ops)"),
        (card("b1"), "(embedding bit_hamming_ops)"),
        (replace(CARD, dim=3072), "((embedding::halfvec(3072)) halfvec_ip_ops)"),
    ],
    ids=["f32", "f16", "b1", "many"],
)
def test_indexes_are_made_as_the_documentation_says(database: Database, of: Card, index: str) -> None:
    sink, one = opened(database, of=of), part(range(5), of=of)
    vectors = one.vectors.copy()
    vectors[0] = 1  # the largest float32 is no halfvec
    one = replace(one, vectors=vectors)
    sink.write(one)
    database.run(f"CREATE INDEX ON vectors USING hnsw {index}")
    sink.write(one)
    assert_holds(sink, one)
    sink.close()


@pytest.mark.parametrize(
    "table", ["Vectors", "drop table", 'quo"ted', "per%cent %s", "x'; DROP TABLE y; --", "naïve", "sp\nace", "t" * 63]
)
def test_a_table_has_the_name_that_was_given(database: Database, table: str) -> None:
    sink, one = opened(database, table), part(["a"])
    sink.write(one)
    assert_holds(sink, one)
    assert database.run("SELECT relname FROM pg_class WHERE relname = %s", table) == [(table,)]
    sink.close()


def test_a_table_may_lie_in_a_schema(database: Database) -> None:
    with pytest.raises(SinkError, match=r'schema "Other" does not exist; make the schema first'):
        opened(database, "Other.vectors")
    database.run('CREATE SCHEMA "Other"')
    one, two = part(["a"]), part(["b"])
    sink, other = opened(database), opened(database, "Other.vectors")
    sink.write(one)
    other.write(two)
    assert_holds(sink, one)
    assert_holds(other, two)
    sink.close()
    other.close()


@pytest.mark.parametrize("table", ["", ".", "a.", ".a", "a.b.c", "t" * 64, "ö" * 32, "nul\0"])
def test_what_cannot_be_a_table_is_refused_at_once(table: str) -> None:
    with pytest.raises(SinkError, match=r"cannot be a table: write table or schema\.table"):
        PostgresSink("postgresql://localhost/db", table)


@pytest.mark.parametrize(
    "made", ["TABLE vectors (id bigint)", "VIEW vectors AS SELECT 1", "SEQUENCE vectors", "TABLE vectors ()"]
)
@pytest.mark.parametrize("replaced", [False, True])
def test_what_no_bulk_job_has_made_is_left_alone(database: Database, made: str, replaced: bool) -> None:
    database.run(f"CREATE {made}")
    sink = PostgresSink(database.url, "vectors")
    with pytest.raises(SinkError, match="was not made by a bulk job"):
        sink.open(CARD, replace=replaced)
    assert database.run("SELECT count(*) FROM pg_class WHERE relname = 'vectors'") == [(1,)]
    sink.close()


def test_a_comment_that_was_spoiled_is_an_error(database: Database, sink: PostgresSink) -> None:
    database.run("COMMENT ON TABLE vectors IS 'headrace card: {}'")
    with pytest.raises(SinkError, match="cannot be read"):
        sink.write(part(["a"]))
    with pytest.raises(SinkError, match="cannot be read"):
        opened(database)


def test_more_dimensions_than_pgvector_holds_are_refused(database: Database) -> None:
    sink = PostgresSink(database.url, "vectors")
    with pytest.raises(SinkError, match=r"dim=16001: pgvector holds 16000 dimensions"):
        sink.open(replace(CARD, dim=16_001), replace=False)
    of = replace(CARD, dim=16_000)
    one = part(["a"], of=of)
    sink.open(of, replace=False)
    sink.write(one)
    assert_holds(sink, one)
    sink.close()


def test_no_number_is_refused_and_takes_nothing_with_it(sink: PostgresSink) -> None:
    one, bad = part(["a", "b"]), part(["c", "d"], window=1)
    bad.vectors[1, 3] = np.float32("nan")
    sink.write(one)
    with pytest.raises(SinkError, match="NaN not allowed"):
        sink.write(bad)
    assert_holds(sink, one)


def test_ids_of_two_kinds_in_one_part_are_refused_by_name(sink: PostgresSink) -> None:
    for ids in ([1, "two"], ["one", 2], [True], [1, 2**63]):
        with pytest.raises(SinkError, match=rf"id {ids[-1]!r} cannot be a key"):
            sink.write(part(ids))  # type: ignore[arg-type]  # that is what is tested
    assert_holds(sink)


def test_an_id_may_fill_what_a_key_can_hold(sink: PostgresSink) -> None:
    numbers = np.random.default_rng(0)
    long = "".join(map(chr, numbers.integers(33, 127, 2600)))  # which does not compress
    one = part([long])
    sink.write(one)
    assert_holds(sink, one)
    with pytest.raises(SinkError, match=r"2601 characters\) cannot be a key in Postgres|has 2601 bytes"):
        sink.write(part([long + "x"]))


def test_the_first_ids_decide_also_when_two_processes_bring_them_at_once(database: Database) -> None:
    sinks, parts, together = (
        [opened(database) for _ in range(4)],
        [part([1]), part(["a"]), part([2]), part(["b"])],
        Barrier(4),
    )

    def write(number: int) -> bool:
        together.wait()
        try:
            sinks[number].write(parts[number])
        except SinkError as error:
            assert "has ids of the type" in str(error)  # noqa: PT017 - either kind may be first
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        kept = list(threads.map(write, range(4)))
    assert kept in ([True, False, True, False], [False, True, False, True])
    assert_holds(sinks[0], *(each for each, is_kept in zip(parts, kept, strict=True) if is_kept))
    for sink in sinks:
        sink.close()


def test_processes_that_write_the_same_rows_at_once_leave_them_once(database: Database) -> None:
    sinks, together = [opened(database) for _ in range(3)], Barrier(3)
    ids = list(range(200))
    orders = [ids, ids[::-1], ids[100:] + ids[:100]]

    def write(number: int) -> None:
        for seed in range(5):
            together.wait()
            sinks[number].write(part(orders[number], seed=seed))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    assert sinks[0].count() == len(ids)
    last = part(ids)
    sinks[0].write(last)
    assert_holds(sinks[1], last)
    for sink in sinks:
        sink.close()


def test_a_nul_in_a_text_that_is_kept_is_replaced(database: Database, sink: PostgresSink) -> None:
    sink.write(replace(part(["a", "b"]), texts=["nul \0", "\ud800 half"]))
    assert database.run("SELECT text FROM vectors ORDER BY id") == [("nul \ufffd",), ("? half",)]


def test_a_text_does_not_stay_beside_a_vector_of_another(database: Database, sink: PostgresSink) -> None:
    sink.write(part(["a"], with_texts=True))
    sink.write(part(["a"], seed=1))
    assert database.run("SELECT text FROM vectors") == [(None,)]


def test_a_lost_connection_fails_one_call_and_the_next_makes_another(database: Database, sink: PostgresSink) -> None:
    one, two = part(range(5)), part(range(5, 9), window=1)
    sink.write(one)
    for call in (lambda: sink.write(two), sink.count, lambda: sink.lookup([1])):
        assert database.end_connections() == 1
        with pytest.raises(SinkError, match=r"terminating connection|closed the connection|connection is lost"):
            call()
        assert_holds(sink, one)
    sink.write(two)
    assert_holds(sink, one, two)


def test_a_connection_lost_in_the_middle_of_a_part_leaves_none_of_it(database: Database, sink: PostgresSink) -> None:
    one, two = part(range(5)), part(range(5, 9), window=1)
    sink.write(one)
    # The server itself ends the connection, once the rows are on their way into the table.
    database.run(
        "CREATE FUNCTION end_me() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.id = 7 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$"
    )
    database.run("CREATE TRIGGER ends BEFORE INSERT ON vectors FOR EACH ROW EXECUTE FUNCTION end_me()")
    with pytest.raises(SinkError, match="then run the same command again"):
        sink.write(two)
    assert_holds(sink, one)
    database.run("DROP TRIGGER ends ON vectors")
    sink.write(two)
    assert_holds(sink, one, two)


def test_what_another_job_has_replaced_meanwhile_gets_no_more_vectors_of_this_one(
    database: Database, sink: PostgresSink
) -> None:
    sink.write(part(range(5)))
    other, of = PostgresSink(database.url, "vectors"), replace(CARD, fingerprint="0" * 16)
    other.open(of, replace=True)
    for call in (lambda: sink.write(part([7])), sink.count, lambda: sink.lookup([1])):
        with pytest.raises(CardMismatch, match="fingerprint"):
            call()
    assert_holds(other)
    other.close()


def test_of_many_that_replace_it_at_once_one_does(database: Database, sink: PostgresSink) -> None:
    sink.write(part(["of another model"]))
    of, together = replace(CARD, dim=8), Barrier(4)
    sinks, parts = [PostgresSink(database.url, "vectors") for _ in range(4)], [part([n], of=of) for n in range(4)]

    def open_and_write(number: int) -> None:
        together.wait()
        sinks[number].open(of, replace=True)
        sinks[number].write(parts[number])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(open_and_write, range(4)))
    assert_holds(sinks[0], *parts)
    for each in sinks:
        each.close()


def test_what_was_dropped_meanwhile_is_missed(database: Database, sink: PostgresSink) -> None:
    database.run("DROP TABLE vectors")
    for call in (lambda: sink.write(part([7])), sink.count, lambda: sink.lookup([1])):
        with pytest.raises(SinkError, match="was dropped since it was opened"):
            call()


def test_a_sink_that_was_not_opened_says_so(database: Database) -> None:
    sink = PostgresSink(database.url, "vectors")
    with pytest.raises(SinkError, match=r"call open\(\) first"):
        sink.count()
    sink.close()


def test_a_table_that_somebody_holds_is_not_waited_for_without_end(
    database: Database, sink: PostgresSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_server, "_LOCK_TIMEOUT", "50ms")
    with psycopg.connect(database.url) as connection:
        connection.execute("LOCK TABLE vectors IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SinkError, match="another transaction has locked the table"):
            sink.write(part([7]))
    one = part([7])
    sink.write(one)
    assert_holds(sink, one)


def test_a_user_that_may_not_make_the_extension_hears_who_may(database: Database) -> None:
    database.run("DROP EXTENSION IF EXISTS vector CASCADE")
    database.run(f"CREATE ROLE {database.name} LOGIN")
    database.run(f"GRANT CREATE ON SCHEMA public TO {database.name}")
    sink = PostgresSink(database.url.replace("postgres:@", f"{database.name}:@"), "vectors")
    with pytest.raises(SinkError, match=r"no extension pgvector.*run CREATE EXTENSION vector"):
        sink.open(CARD, replace=False)
    database.run("CREATE EXTENSION vector")
    sink.open(CARD, replace=False)
    one = part([7])
    sink.write(one)
    assert_holds(sink, one)
    sink.close()
    database.run(f"DROP OWNED BY {database.name}")
    database.run(f"DROP ROLE {database.name}")


@pytest.mark.parametrize("path", ["public", "", "other, public"])
def test_the_extension_may_lie_in_another_schema(database: Database, path: str) -> None:
    database.run("DROP EXTENSION IF EXISTS vector CASCADE")
    database.run('CREATE SCHEMA "of Extensions"')
    database.run("CREATE SCHEMA other")
    database.run('CREATE EXTENSION vector SCHEMA "of Extensions"')
    database.run(f"ALTER DATABASE {database.name} SET search_path = {path or chr(39) * 2}")
    sink, one = opened(database, "public.vectors"), part([7])
    sink.write(one)
    assert_holds(sink, one)
    sink.close()


def test_what_is_acknowledged_is_on_disk_whatever_the_database_prefers(database: Database, sink: PostgresSink) -> None:
    database.run(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    database.run("CREATE TABLE seen (setting text)")
    database.run(
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$"
    )
    database.run("CREATE TRIGGER sees BEFORE INSERT ON vectors FOR EACH STATEMENT EXECUTE FUNCTION see()")
    sink.close()  # the next connection has the new setting
    sink.write(part([7]))
    assert database.run("SELECT DISTINCT setting FROM seen") == [("on",)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@127.0.0.1:1/db",
        "postgresql://me:s3cret@no.such.host.invalid/db",
        "postgresql://me:s3cret@127.0.0.1:1/db?no_such_option=1",
        "postgresql://me:s3cret@127.0.0.1:no_port/db",
        "postgresql://me:s3cret@[::1/db",
        "postgresql://me:s3cret%zz@127.0.0.1/db",
        "host=127.0.0.1 port=1 user=me password=s3cret",
        "host=127.0.0.1 port=1 user=me password='s3cret",
        "me:s3cret@127.0.0.1/db",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(SinkError) as caught:
        PostgresSink(url, "vectors").open(CARD, replace=False)
    said = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in said
    assert "Postgres" in str(caught.value)


def test_its_name_leaves_nothing_out_but_who_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "from.environment")
    monkeypatch.setenv("PGDATABASE", "docs")
    for url, name in {
        "postgresql://me:s3cret@db.local:6000/docs?sslmode=require": "postgresql://db.local:6000/docs#a.b",
        "postgresql://me:s3cret@/docs?host=/run/postgres": "postgresql://%2Frun%2Fpostgres:5432/docs#a.b",
        "postgresql://me:s3cret@": "postgresql://from.environment:5432/docs#a.b",
        "host=db.local dbname=naïve password=s3cret": "postgresql://db.local:5432/na%C3%AFve#a.b",
    }.items():
        assert PostgresSink(url, "a.b").name == name


def test_a_database_that_is_not_there_is_named(database: Database) -> None:
    with pytest.raises(SinkError, match=r'dbname=nowhere\).*database "nowhere" does not exist; see that'):
        PostgresSink(database.url.replace(database.name, "nowhere"), "vectors").open(CARD, replace=False)
