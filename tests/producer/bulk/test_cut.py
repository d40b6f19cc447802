"""Which windows are done, as spans that merge and split."""

from headrace.bulk.cut import Span, Spans
from hypothesis import given
from hypothesis import strategies as st


def window(index: int, rows: int = 10) -> Span:
    return Span(index, index + 1, index * rows, (index + 1) * rows)


def test_neighbours_merge_in_whatever_order_they_come() -> None:
    spans = Spans()
    for index in (3, 0, 2, 1, 7):
        spans = spans.plus(window(index))
    assert spans.spans == (Span(0, 4, 0, 40), window(7))


def test_a_window_that_is_done_twice_is_there_once() -> None:
    assert Spans().plus(window(1)).plus(window(1)).spans == (window(1),)


def test_a_window_taken_out_of_the_middle_leaves_both_ends() -> None:
    assert Spans((Span(0, 9, 0, 90),)).minus(window(4)).spans == (Span(0, 4, 0, 40), Span(5, 9, 50, 90))


def test_the_first_and_the_last_window_can_be_taken_out() -> None:
    whole = Spans((Span(0, 3, 0, 30),))
    assert whole.minus(window(0)).spans == (Span(1, 3, 10, 30),)
    assert whole.minus(window(2)).spans == (Span(0, 2, 0, 20),)
    assert Spans((window(5),)).minus(window(5)).spans == ()


@given(st.lists(st.integers(0, 30)), st.lists(st.integers(0, 30)))
def test_spans_are_the_set_of_their_windows(added: list[int], removed: list[int]) -> None:
    spans = Spans()
    for index in added:
        spans = spans.plus(window(index))
    for index in removed:
        spans = spans.minus(window(index))
    left = set(added) - set(removed)
    assert {index for index in range(32) if spans.end_of(index) is not None} == left
    assert all(here.end_window < there.window for here, there in zip(spans.spans, spans.spans[1:], strict=False))
