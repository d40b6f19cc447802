"""What an audit says of one window."""

import numpy as np
from headrace.bulk import checksums
from headrace.bulk.ledger import Record
from headrace.bulk.rows import Id, Problem
from headrace.bulk.sift import text_hash
from headrace.bulk.sink import Stored
from headrace.bulk.verify import Verdict, compare
from headrace.bulk.window import Window

WINDOW = Window(0, 2, 20, ["a", "b", "c"], ["x", "y", Problem("null", "null")])


def stored(text: str, value: float) -> Stored:
    return Stored(text_hash(text), np.full(2, value, np.float32))


SINK: dict[Id, Stored] = {"a": stored("x", 1), "b": stored("y", 2)}
RECORD = Record(
    window=2,
    first=20,
    rows=3,
    written=2,
    unchanged=0,
    failed=1,
    tokens=2,
    ids=checksums.of_ids(["a", "b"]),
    vectors=checksums.of_vectors(np.array([[1, 1], [2, 2]], np.float32)),
)


def test_all_is_right_where_each_row_is_where_it_should_be() -> None:
    assert compare(WINDOW, SINK, {2}, RECORD) == Verdict(rows=3, right=2, failed=1)


def test_a_row_that_is_in_neither_is_missing() -> None:
    verdict = compare(WINDOW, {"a": SINK["a"]}, {2}, RECORD)
    assert (verdict.right, verdict.missing, verdict.windows) == (1, 1, ["00000-000002"])


def test_a_row_without_a_text_that_no_file_of_errors_names_is_missing() -> None:
    verdict = compare(WINDOW, SINK, set(), RECORD)
    assert (verdict.failed, verdict.missing, verdict.is_good) == (0, 1, False)


def test_a_row_with_another_text_is_stale() -> None:
    verdict = compare(WINDOW, SINK | {"b": stored("older", 2)}, {2}, RECORD)
    assert (verdict.right, verdict.stale, verdict.is_good) == (1, 1, False)


def test_vectors_that_are_not_those_that_were_written_are_damaged() -> None:
    verdict = compare(WINDOW, SINK | {"b": stored("y", 3)}, {2}, RECORD)
    assert (verdict.right, verdict.damaged, verdict.is_good) == (0, 2, False)


def test_without_a_record_nothing_is_said_of_vectors() -> None:
    assert compare(WINDOW, SINK | {"b": stored("y", 3)}, {2}, None).is_good


def test_doubled_rows_are_not_right_where_a_sink_is_one_corpus() -> None:
    assert not Verdict(rows=2, right=2, extra=1).is_good
    assert Verdict(rows=2, right=2, extra=1, is_one_corpus=False).is_good


def test_what_is_not_done_is_not_right() -> None:
    assert not Verdict(rows=2, not_done=2).is_good
