"""What of a window must be embedded."""

import numpy as np
import pytest
from headrace.bulk.rows import Problem
from headrace.bulk.sift import sift, text_hash
from headrace.bulk.sink import Stored
from headrace.bulk.window import Window


def window(*rows: tuple[str | int, str | Problem]) -> Window:
    return Window(0, 0, 0, [row[0] for row in rows], [row[1] for row in rows])


def stored(text: str) -> Stored:
    return Stored(text_hash(text), np.ones(3, np.float32))


def test_a_text_that_several_rows_have_is_embedded_once() -> None:
    sifted = sift(window(("a", "x"), ("b", "y"), ("c", "x")), {}, dedupe=True)
    assert sifted.texts == ["x", "y"]
    assert sifted.text_of.tolist() == [0, 1, 0]


def test_without_dedupe_each_row_has_its_own() -> None:
    assert sift(window(("a", "x"), ("b", "x")), {}, dedupe=False).texts == ["x", "x"]


def test_a_row_that_the_sink_has_with_the_same_text_is_left_out() -> None:
    sifted = sift(window(("a", "x"), ("b", "y")), {"a": stored("x"), "b": stored("old")}, dedupe=True)
    assert sifted.texts == ["y"]
    assert list(sifted.unchanged) == [0]
    assert sifted.text_of.tolist() == [-1, 0]


def test_a_row_without_a_text_is_a_problem() -> None:
    sifted = sift(window(("a", Problem("null", "null")), ("b", "y")), {}, dedupe=True)
    assert sifted.problems == {0: Problem("null", "null")}
    assert sifted.texts == ["y"]


def test_of_two_rows_with_one_id_the_first_counts() -> None:
    sifted = sift(window(("a", "x"), ("a", "y")), {}, dedupe=True)
    assert sifted.problems[1].code == "duplicate_id"
    assert sifted.texts == ["x"]


def test_a_number_and_its_digits_are_two_ids() -> None:
    assert not sift(window((1, "x"), ("1", "y")), {}, dedupe=True).problems


def test_a_row_without_a_text_does_not_take_the_id_from_a_later_one() -> None:
    sifted = sift(window(("a", Problem("null", "null")), ("a", "y")), {}, dedupe=True)
    assert list(sifted.problems) == [0]


def test_a_hash_is_of_the_text_alone() -> None:
    assert text_hash("wheel") == text_hash("wheel") != text_hash("Wheel")
    assert len(text_hash("")) == 16
    assert text_hash("\ud800")  # half of a surrogate pair, which has no UTF-8


@pytest.mark.parametrize("row_id", ["a\0b", "\udc80", "x" * 1025, "é" * 513])
def test_an_id_that_not_every_sink_can_keep_is_a_problem(row_id: str) -> None:
    sifted = sift(window((row_id, "x"), ("x" * 1024, "y")), {}, dedupe=True)
    assert [(place, problem.code) for place, problem in sifted.problems.items()] == [(0, "bad_id")]
