"""Which batches are measured."""

from itertools import pairwise

import pytest
from headrace_workers.calibration.plan import Ladder, ladders

LENGTHS = [1, 7, 16, 17, 256, 512, 8192, 32768]


def single(found: tuple[Ladder, ...]) -> Ladder:
    return next(ladder for ladder in found if ladder.grows_longer)


@pytest.mark.parametrize("max_length", LENGTHS)
def test_no_sequence_is_longer_than_the_model_takes_and_none_is_empty(max_length: int) -> None:
    lengths = [n for ladder in ladders(max_length) for shape in ladder.rungs for n in shape.lengths]
    assert min(lengths) >= 1
    assert max(lengths) == max_length


@pytest.mark.parametrize("max_length", LENGTHS)
def test_the_longest_sequence_is_measured_alone_and_in_company(max_length: int) -> None:
    found = ladders(max_length)
    assert single(found).rungs[-1].lengths == (max_length,)
    together = [ladder for ladder in found if ladder.rungs[0].lengths == (max_length, max_length)]
    assert together


@pytest.mark.parametrize("max_length", LENGTHS)
def test_tokens_rise_from_rung_to_rung_and_about_double(max_length: int) -> None:
    for ladder in ladders(max_length):
        tokens = [shape.num_tokens for shape in ladder.rungs]
        assert tokens == sorted(set(tokens))
        assert all(after <= 2 * before + max_length for before, after in pairwise(tokens))


def test_batches_go_as_far_as_they_may() -> None:
    for ladder in ladders(256, max_tokens=4096):
        assert ladder.grows_longer or 4096 <= ladder.rungs[-1].num_tokens < 4096 + 256


def test_kinds_of_batches_have_names_of_their_own() -> None:
    for max_length in LENGTHS:
        kinds = [ladder.kind for ladder in ladders(max_length)]
        assert len(set(kinds)) == len(kinds)


def test_mixed_batches_hold_short_and_long_sequences_alike() -> None:
    lengths = ladders(512)[-1].rungs[5].lengths
    assert min(lengths) < 16
    assert max(lengths) > 400
    assert len(set(lengths)) > len(lengths) // 3


def test_a_shape_counts_tokens_and_pairs_that_share_a_sequence() -> None:
    shape = ladders(256)[1].rungs[1]
    assert shape.lengths == (16, 16, 16, 16)
    assert (shape.num_tokens, shape.num_squares) == (64, 1024)
