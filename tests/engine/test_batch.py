import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import BatchError, RaggedBatch, pack
from hypothesis import given
from hypothesis import strategies as st

from .vectors import random_ids


def unpack(batch: RaggedBatch) -> dict[int, list[int]]:
    """The token ids of each of the caller's sequences."""
    bounds = batch.cu_seqlens.tolist()
    return {
        int(index): batch.token_ids[start:stop].tolist()
        for index, start, stop in zip(batch.order, bounds[:-1], bounds[1:], strict=True)
    }


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_every_sequence_can_be_found_again(lengths: list[int]) -> None:
    sequences = [random_ids(index, length, 2**32) for index, length in enumerate(lengths)]
    batch = pack(sequences)
    assert unpack(batch) == {index: sequence.tolist() for index, sequence in enumerate(sequences)}
    assert (batch.num_sequences, batch.num_tokens) == (len(lengths), sum(lengths))
    assert batch.max_seqlen == max(lengths)


def test_sequences_are_sorted_by_length_and_ties_keep_their_order() -> None:
    batch = pack([random_ids(0, length, 9) for length in (3, 1, 3, 2, 1)])
    assert batch.order.tolist() == [1, 4, 3, 0, 2]
    assert batch.cu_seqlens.tolist() == [0, 1, 2, 4, 7, 10]
    assert batch.positions.tolist() == [0, 0, 0, 1, 0, 1, 2, 0, 1, 2]


def test_segment_ids_follow_their_tokens() -> None:
    batch = pack([np.array([5, 6], np.uint32), np.array([7], np.uint32)], [np.array([0, 1], np.uint32), one()])
    assert batch.token_ids.tolist() == [7, 5, 6]
    assert batch.segment_ids is not None
    assert batch.segment_ids.tolist() == [1, 0, 1]


def test_a_batch_keeps_no_reference_to_the_sequences() -> None:
    sequence = np.array([5, 6], np.uint32)
    batch = pack([sequence])
    sequence[:] = 0
    assert batch.token_ids.tolist() == [5, 6]


def test_views_into_a_read_only_message_are_packed() -> None:
    message = np.array([1, 2, 3], np.uint32).tobytes()
    tokens = np.frombuffer(message, "<u4")
    assert pack([tokens[:1], tokens[1:]]).token_ids.tolist() == [1, 2, 3]


def test_skips_go_with_their_sequences() -> None:
    batch = pack([random_ids(0, length, 9) for length in (3, 1, 2)], skips=[2, 0, 1])
    assert batch.skips is not None
    assert (batch.skips.tolist(), batch.skips.dtype) == ([0, 1, 2], torch.int32)
    assert pack([one()]).skips is None


@pytest.mark.parametrize(
    ("skips", "message"),
    [
        ([0], "skips has 1 numbers for 2 sequences"),
        ([0, 1, 0], "skips has 3 numbers for 2 sequences"),
        ([3, 0], r"skips\[0\]=3 of 3 tokens: give 0 or more, and leave one token to pool"),
        ([0, -1], r"skips\[1\]=-1 of 1 tokens"),
        ([0, 2**40], r"skips\[1\]=1099511627776 of 1 tokens"),
    ],
)
def test_skips_that_do_not_fit_are_refused(skips: list[int], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        pack([random_ids(0, 3, 9), one()], skips=skips)


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=30), max_tokens=st.integers(1, 400))
def test_the_parts_of_a_batch_are_batches_of_its_sequences_in_order(lengths: list[int], max_tokens: int) -> None:
    sequences = [np.full(length, index, np.uint32) for index, length in enumerate(lengths)]
    batch = pack(
        sequences, [np.arange(length, dtype=np.uint8) for length in lengths], [length - 1 for length in lengths]
    )
    parts = batch.parts(max_tokens)
    assert all(part.cu_seqlens[0] == 0 and part.num_sequences > 0 for part in parts)
    assert all(part.num_tokens <= max_tokens + max(lengths) for part in parts)
    assert np.concatenate([part.order for part in parts]).tolist() == batch.order.tolist()
    for name in ("token_ids", "positions", "segment_ids", "skips"):
        assert torch.cat([getattr(part, name) for part in parts]).equal(getattr(batch, name))
    for part in parts:
        assert part.host_cu_seqlens.tolist() == part.cu_seqlens.tolist()
        assert part.max_seqlen == np.diff(part.host_cu_seqlens).max()
        assert [unpack(part)[index] for index in part.order.tolist()] == [
            sequences[index].tolist() for index in part.order.tolist()
        ]


def test_a_batch_without_segments_or_skips_has_parts_without() -> None:
    for part in pack([np.ones(8, np.uint32)] * 4).parts(16):
        assert (part.num_tokens, part.segment_ids, part.skips) == (16, None, None)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(BatchError, match="no sequences"):
        pack([])


def test_an_empty_sequence_is_refused_by_its_index() -> None:
    with pytest.raises(BatchError, match=r"sequences\[1\] is empty"):
        pack([one(), np.array([], np.uint32)])


@pytest.mark.parametrize("array", [np.zeros((1, 2), np.uint32), np.zeros(2, np.int64), np.zeros(2, np.float32)])
def test_anything_but_flat_unsigned_integers_is_refused(array: npt.NDArray[np.uint32]) -> None:
    with pytest.raises(BatchError, match=r"sequences\[0\] is .-D"):
        pack([array])


def test_segment_ids_must_fit_their_sequences() -> None:
    with pytest.raises(BatchError, match="segment_ids has 2 arrays for 1 sequences"):
        pack([one()], [one(), one()])
    with pytest.raises(BatchError, match=r"segment_ids\[0\] has 1 ids for 2 tokens"):
        pack([np.array([5, 6], np.uint32)], [one()])


def one() -> npt.NDArray[np.uint32]:
    return np.array([1], np.uint32)
