from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import RaggedBatch, pack
from headrace_engine.buckets import Buckets, GraphKey, pad, spread
from hypothesis import given
from hypothesis import strategies as st

from .recording import batch_of
from .vectors import random_ids


def buckets(**changes: Any) -> Buckets:
    return Buckets(**({"max_tokens": 2**20, "max_length": 512, "buckets_max_seqlen": False} | changes))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Buckets, RaggedBatch]:
    """Any buckets, and any batch of a model with that max length."""
    max_length = draw(st.integers(2, 600))
    coarse = draw(st.sampled_from([64, 128, 256]))
    made = buckets(
        max_length=max_length,
        buckets_max_seqlen=draw(st.booleans()),
        fine_step=draw(st.sampled_from([1, 16, 64])),
        coarse_step=coarse,
        fine_tokens=coarse * draw(st.integers(0, 8)),
        min_seqlen=draw(st.sampled_from([2, 16, 64])),
    )
    longest = draw(st.integers(1, max_length))
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=40))
    return made, batch_of(*lengths)


@given(cases())
def test_a_padded_batch_has_the_sizes_of_its_key_and_no_empty_sequence(case: tuple[Buckets, RaggedBatch]) -> None:
    made, batch = case
    key = made.key(batch)
    assert key is not None
    padded = pad(batch, key)
    assert (padded.num_tokens, padded.num_sequences) == (key.num_tokens, key.num_sequences)
    lengths = np.diff(padded.host_cu_seqlens)
    assert lengths.min() >= 1
    assert lengths.max() == padded.max_seqlen <= key.max_seqlen <= made.max_length
    assert padded.host_cu_seqlens[0] == 0
    assert padded.host_cu_seqlens[-1] == key.num_tokens
    assert padded.host_cu_seqlens.dtype == np.int32
    assert padded.cu_seqlens.tolist() == padded.host_cu_seqlens.tolist()
    np.testing.assert_array_equal(padded.positions, np.concatenate([np.arange(length) for length in lengths]))


@given(cases())
def test_the_real_sequences_come_first_and_dummies_are_even_and_of_token_0(case: tuple[Buckets, RaggedBatch]) -> None:
    made, batch = case
    key = made.key(batch)
    assert key is not None
    padded = pad(batch, key)
    assert padded.token_ids[: batch.num_tokens].equal(batch.token_ids)
    assert not padded.token_ids[batch.num_tokens :].any()
    assert padded.host_cu_seqlens[: batch.num_sequences + 1].tolist() == batch.host_cu_seqlens.tolist()
    assert padded.order.tolist() == [*batch.order.tolist(), *range(batch.num_sequences, key.num_sequences)]
    dummies = np.diff(padded.host_cu_seqlens[batch.num_sequences :])
    assert not len(dummies) or dummies.max() - dummies.min() <= 1
    for field in (padded.token_ids, padded.positions):
        assert field.dtype == torch.int64
    assert padded.order.dtype == np.int64


@given(cases())
def test_a_padded_batch_has_the_same_key_and_needs_no_more_padding(case: tuple[Buckets, RaggedBatch]) -> None:
    made, batch = case
    key = made.key(batch)
    assert key is not None
    padded = pad(batch, key)
    assert made.key(padded) == key
    assert pad(padded, key) is padded


@given(cases())
def test_the_waste_is_bounded(case: tuple[Buckets, RaggedBatch]) -> None:
    made, batch = case
    key = made.key(batch)
    assert key is not None
    step = made.fine_step if key.num_tokens <= made.fine_tokens else made.coarse_step
    dummies = key.num_sequences - batch.num_sequences
    assert key.num_tokens - batch.num_tokens < step + dummies
    assert dummies <= batch.num_sequences + (2 * step / (key.max_seqlen - 1) if key.max_seqlen < step else 0)


@given(cases())
def test_sequences_are_a_power_of_two_unless_the_tokens_fit_already(case: tuple[Buckets, RaggedBatch]) -> None:
    made, batch = case
    key = made.key(batch)
    assert key is not None
    assert key.num_sequences.bit_count() == 1 or key.num_tokens == batch.num_tokens
    assert key.num_tokens % (made.fine_step if key.num_tokens <= made.fine_tokens else made.coarse_step) == 0


@pytest.mark.parametrize(("count", "length"), [(1, 512), (5, 512), (25, 512), (50, 512), (1, 128), (3, 64)])
def test_tokens_that_are_a_bucket_already_cost_nothing_more(count: int, length: int) -> None:
    batch = batch_of(*[length] * count)
    key = buckets().key(batch)
    assert key == GraphKey(count * length, count, 512)
    assert pad(batch, key) is batch


@pytest.mark.parametrize(
    ("lengths", "key"),
    [
        ([500], GraphKey(512, 2, 512)),  # one dummy of 12
        ([10, 10, 10, 10], GraphKey(64, 8, 512)),  # the padding needs a slot although 4 is a power of two
        ([21, 21, 21], GraphKey(64, 4, 512)),  # one token of padding is one dummy
        ([31, 31], GraphKey(64, 4, 512)),  # two tokens for two dummies
        ([12, 12, 12, 13, 13], GraphKey(128, 8, 512)),  # two tokens for three dummies: the next step
        ([205] * 5, GraphKey(1280, 8, 512)),  # the coarse step begins above 1,024
        ([1] * 33, GraphKey(64, 64, 512)),
    ],
)
def test_a_batch_goes_up_to_the_next_sizes_that_can_be_padded_to(lengths: list[int], key: GraphKey) -> None:
    assert buckets().key(batch_of(*lengths)) == key


def test_dummies_longer_than_the_model_takes_are_split_over_more_slots() -> None:
    made = buckets(max_length=40, fine_step=128)
    batch = batch_of(30)
    key = made.key(batch)
    assert key == GraphKey(128, 4, 40)
    assert np.diff(pad(batch, key).host_cu_seqlens).tolist() == [30, 32, 33, 33]


def test_max_seqlen_is_the_models_unless_the_backend_bakes_it_in() -> None:
    assert [buckets().fit(640, 10, longest) for longest in (64, 65, 400)] == [GraphKey(640, 10, 512)] * 3
    made = buckets(buckets_max_seqlen=True, max_length=400)
    keys = [made.fit(640, 20, longest) for longest in (32, 64, 65, 128, 129, 257, 400)]
    assert [key and key.max_seqlen for key in keys] == [64, 64, 128, 128, 256, 400, 400]


def test_a_batch_that_would_have_more_than_max_tokens_has_no_key() -> None:
    made = buckets(max_tokens=1024)
    assert made.key(batch_of(512, 512)) == GraphKey(1024, 2, 512)
    assert made.key(batch_of(512, 510)) == GraphKey(1024, 4, 512)
    assert made.key(batch_of(512, 511)) is None  # one token of padding is too few for two dummies
    assert made.key(batch_of(512, 512, 1)) is None
    assert buckets(max_tokens=0).key(batch_of(1)) is None


def test_segments_are_padded_with_segment_0() -> None:
    segments = [np.array([0, 1, 1], np.uint8), np.array([1], np.uint8)]
    batch = pack([random_ids(0, 3, 9), random_ids(1, 1, 9)], segments)
    padded = pad(batch, GraphKey(64, 4, 512))
    assert padded.segment_ids is not None
    assert padded.segment_ids.tolist() == [1, 0, 1, 1] + [0] * 60


def test_dummies_skip_nothing() -> None:
    batch = pack([random_ids(0, 3, 9), random_ids(1, 2, 9)], skips=[2, 1])
    padded = pad(batch, GraphKey(64, 4, 512))
    assert padded.skips is not None
    assert (padded.skips.tolist(), padded.skips.dtype) == ([1, 2, 0, 0], torch.int32)
    assert pad(batch_of(3, 2), GraphKey(64, 4, 512)).skips is None


@pytest.mark.parametrize("sizes", [(0, 0, 1), (3, 4, 1), (11, 2, 5), (513, 1, 513), (4, 2, 0)])
def test_sizes_of_no_batch_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=f"num_tokens={sizes[0]}, .* check the batch against the model's limits"):
        buckets().fit(*sizes)


@pytest.mark.parametrize(
    "key",
    [
        GraphKey(8, 2, 512),  # fewer tokens
        GraphKey(64, 1, 512),  # fewer sequences
        GraphKey(64, 2, 512),  # padding and nobody to own it
        GraphKey(11, 4, 512),  # a dummy without a token
        GraphKey(64, 3, 53),  # a dummy that is too long
        GraphKey(64, 32, 4),  # a real sequence that is too long
    ],
)
def test_a_batch_is_not_padded_to_another_ones_key(key: GraphKey) -> None:
    with pytest.raises(ValueError, match="a batch of 10 tokens in 2 sequences of at most 5 cannot be padded"):
        pad(batch_of(5, 5), key)


@given(st.integers(1, 100), st.integers(0, 1000))
def test_tokens_are_shared_out_evenly(num_sequences: int, num_tokens: int) -> None:
    lengths = spread(num_tokens, num_sequences)
    assert lengths.sum() == num_tokens
    assert len(lengths) == num_sequences
    assert lengths[-1] - lengths[0] <= 1
    assert (np.diff(lengths) >= 0).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("max_length", 1),
        ("min_seqlen", 1),
        ("fine_step", 0),
        ("coarse_step", 63),
        ("fine_tokens", 100),
    ],
)
def test_fields_that_make_no_sense_are_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field}={value}"):
        buckets(**{field: value})
