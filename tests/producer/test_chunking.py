from itertools import pairwise

from headrace.chunking import split
from hypothesis import given
from hypothesis import strategies as st


def test_nothing_gives_no_chunk() -> None:
    assert split([], max_tokens=10, max_items=10) == []


def test_chunks_are_cut_where_tokens_or_items_run_out() -> None:
    assert split([5, 5, 1, 9, 1], max_tokens=10, max_items=10) == [range(2), range(2, 4), range(4, 5)]
    assert split([1] * 5, max_tokens=10, max_items=2) == [range(2), range(2, 4), range(4, 5)]


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(50, 120), st.integers(1, 9))
def test_chunks_cover_everything_once_in_order_within_their_limits(
    lengths: list[int], max_tokens: int, max_items: int
) -> None:
    runs = split(lengths, max_tokens=max_tokens, max_items=max_items)
    assert [index for run in runs for index in run] == list(range(len(lengths)))
    assert all(1 <= len(run) <= max_items for run in runs)
    assert all(sum(lengths[index] for index in run) <= max_tokens for run in runs)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_no_chunk_could_have_taken_its_successors_first_sequence(lengths: list[int]) -> None:
    runs = split(lengths, max_tokens=60, max_items=1000)
    for run, successor in pairwise(runs):
        assert sum(lengths[index] for index in run) + lengths[successor.start] > 60
