"""Windows of a shard: cut the same each time, and only those that are not done."""

import pytest
from headrace.bulk.cut import Cut, Span, Spans
from headrace.bulk.rows import Problem
from headrace.bulk.window import Window, undone_windows
from hypothesis import given
from hypothesis import strategies as st

from .made_up import MadeUp, corpus


def windows(source: MadeUp, cut: Cut, done: Spans = Spans()) -> list[Window]:  # noqa: B008 - frozen
    return list(undone_windows(source, 0, cut, done))


def test_windows_cover_all_rows_in_order() -> None:
    found = windows(corpus(25), Cut(rows=10))
    assert [(window.index, window.row, len(window.ids)) for window in found] == [(0, 0, 10), (1, 10, 10), (2, 20, 5)]
    assert [row for window in found for row in window.ids] == [f"r0-{n}" for n in range(25)]


def test_a_window_ends_with_the_text_that_fills_it() -> None:
    source = MadeUp([(n, "x" * 40) for n in range(5)])
    assert [len(window.ids) for window in windows(source, Cut(characters=100))] == [3, 2]


def test_one_huge_text_is_a_window() -> None:
    source = MadeUp([(0, "a"), (1, "x" * 1000), (2, "b")])
    assert [window.ids for window in windows(source, Cut(characters=100))] == [[0, 1], [2]]


def test_rows_without_a_text_fill_no_window_but_count() -> None:
    source = MadeUp([(n, Problem("null", "null")) for n in range(7)])
    assert [len(window.ids) for window in windows(source, Cut(rows=5, characters=1))] == [5, 2]


def test_a_shard_without_rows_has_no_windows() -> None:
    assert windows(MadeUp([]), Cut()) == []


def test_reading_goes_on_behind_what_is_done() -> None:
    source = corpus(100)
    found = windows(source, Cut(rows=10), Spans((Span(0, 7, 0, 70),)))
    assert [window.index for window in found] == [7, 8, 9]
    assert source.reads == [(0, 70)]


def test_nothing_is_left_of_a_shard_that_is_done() -> None:
    assert windows(corpus(20), Cut(rows=10), Spans((Span(0, 2, 0, 20),))) == []


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 200), st.sets(st.integers(0, 30)), st.integers(1, 9))
def test_what_is_not_done_is_cut_as_it_was_the_first_time(
    num_rows: int, rows: int, characters: int, done: set[int], step: int
) -> None:
    cut = Cut(rows=rows, characters=characters)
    first = windows(corpus(num_rows), cut)
    spans = Spans.of(window.span for window in first if window.index in done)
    again = windows(corpus(num_rows, rows_at_a_time=step), cut, spans)
    wanted = [window for window in first if window.index not in done]
    assert [(window.span, window.ids) for window in again] == [(window.span, window.ids) for window in wanted]


def test_a_source_that_fails_is_not_swallowed() -> None:
    class Broken(MadeUp):
        def read(self, shard: int, first: int):  # type: ignore[no-untyped-def]
            yield from super().read(shard, first)
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        windows(Broken([(1, "a")]), Cut())
