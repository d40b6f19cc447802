import numpy as np
import pytest
import torch
from headrace_engine import RaggedBatch, pack
from headrace_engine.buckets import Buckets, GraphKey, pad
from headrace_engine.static_batch import StaticBatch, dummy
from hypothesis import given
from hypothesis import strategies as st

from .recording import CPU, batch_of
from .vectors import random_ids

KEY = GraphKey(64, 4, 40)


def tensors(batch: RaggedBatch) -> list[torch.Tensor]:
    """All that a batch is made of."""
    segments = torch.zeros_like(batch.token_ids) if batch.segment_ids is None else batch.segment_ids
    skips = torch.zeros_like(batch.cu_seqlens[1:]) if batch.skips is None else batch.skips
    host = torch.from_numpy(batch.host_cu_seqlens), torch.from_numpy(batch.order)
    return [batch.token_ids, batch.positions, batch.cu_seqlens, segments, skips, *host]


def paired(*lengths: int) -> RaggedBatch:
    """A batch whose tokens are all in segment 1."""
    return pack([random_ids(n, n, 9) for n in lengths], [np.ones(n, np.uint8) for n in lengths])


def prompted(*lengths: int) -> RaggedBatch:
    """A batch of which only the last token of each sequence is pooled."""
    return pack([random_ids(n, n, 9) for n in lengths], skips=[n - 1 for n in lengths])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.booleans())
def test_a_dummy_has_exactly_the_sizes_of_its_key(lengths: list[int], buckets_max_seqlen: bool) -> None:
    key = Buckets(max_tokens=4096, max_length=40, buckets_max_seqlen=buckets_max_seqlen, min_seqlen=2).key(
        batch_of(*lengths)
    )
    assert key is not None
    batch = dummy(key)
    assert (batch.num_tokens, batch.num_sequences) == (key.num_tokens, key.num_sequences)
    found = np.diff(batch.host_cu_seqlens)
    assert found.min() >= 1
    assert found.max() <= min(key.max_seqlen, found.min() + 1)


def test_new_buffers_hold_a_dummy() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=True, has_skips=True)
    for found, expected in zip(tensors(static.batch), tensors(dummy(KEY)), strict=True):
        assert found.equal(expected)


def test_buffers_say_the_max_seqlen_of_the_key_whatever_they_hold() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False)
    static.fill(pad(batch_of(3), GraphKey(64, 4, 40)), torch.Tensor.copy_)
    assert static.batch.max_seqlen == 40


@pytest.mark.parametrize("has_segments", [False, True])
@pytest.mark.parametrize("has_skips", [False, True])
def test_filling_writes_every_element_where_it_was(has_segments: bool, has_skips: bool) -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=has_segments, has_skips=has_skips)
    addresses = [tensor.data_ptr() for tensor in tensors(static.batch)]
    for buffer in tensors(static.batch):
        buffer.fill_(-7)
    padded = pad(batch_of(20, 3, 30), KEY)
    static.fill(padded, torch.Tensor.copy_)
    for found, expected in zip(tensors(static.batch), tensors(padded), strict=True):
        assert found.equal(expected)
    assert addresses[:3] == [tensor.data_ptr() for tensor in tensors(static.batch)][:3]
    assert (static.batch.num_tokens, static.batch.num_sequences) == (64, 4)


def test_segments_of_the_former_batch_are_gone_when_the_next_one_has_none() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=True)
    assert static.batch.segment_ids is not None
    static.fill(pad(paired(20, 3, 30), KEY), torch.Tensor.copy_)
    assert static.batch.segment_ids.tolist() == [1] * 53 + [0] * 11
    static.fill(pad(batch_of(20, 3, 30), KEY), torch.Tensor.copy_)
    assert not static.batch.segment_ids.any()


def test_skips_are_written_and_those_of_the_former_batch_are_gone_when_the_next_one_has_none() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False, has_skips=True)
    assert static.batch.skips is not None
    address = static.batch.skips.data_ptr()
    static.fill(pad(prompted(20, 3, 30), KEY), torch.Tensor.copy_)
    assert static.batch.skips.tolist() == [2, 19, 29, 0]
    static.fill(pad(batch_of(20, 3, 30), KEY), torch.Tensor.copy_)
    assert not static.batch.skips.any()
    assert static.batch.skips.data_ptr() == address


def test_the_device_and_the_host_copy_of_cu_seqlens_share_no_memory() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False)
    static.batch.cu_seqlens.fill_(-1)
    assert static.batch.host_cu_seqlens.min() == 0


def test_all_buffers_are_copied_at_once_by_the_copy_that_was_given() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=True, has_skips=True)
    copied: list[torch.Tensor] = []

    def copy(destination: torch.Tensor, source: torch.Tensor) -> None:
        assert (destination.shape, destination.dtype) == (source.shape, source.dtype)
        copied.append(destination)

    static.fill(pad(batch_of(3), KEY), copy)
    assert len(copied) == 1
    assert copied[0] is static.block
    start, size = static.block.data_ptr(), static.block.nbytes
    assert all(start <= buffer.data_ptr() < start + size for buffer in tensors(static.batch)[:5])
    assert sum(buffer.nbytes for buffer in tensors(static.batch)[:5]) == size
    assert all(buffer.data_ptr() % buffer.itemsize == 0 for buffer in tensors(static.batch)[:5])


@pytest.mark.parametrize("key", [GraphKey(128, 4, 40), GraphKey(64, 8, 40)])
def test_a_batch_of_other_sizes_is_refused(key: GraphKey) -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False)
    with pytest.raises(ValueError, match=r"is not of the sizes of GraphKey\(num_tokens=64"):
        static.fill(pad(batch_of(30, 20), key), torch.Tensor.copy_)


def test_a_batch_with_a_longer_sequence_is_refused() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False)
    with pytest.raises(ValueError, match="4 sequences of at most 41 is not of the sizes"):
        static.fill(pad(batch_of(41), GraphKey(64, 4, 64)), torch.Tensor.copy_)


def test_segments_without_a_buffer_for_them_are_refused_unless_they_are_all_0() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False)
    with pytest.raises(ValueError, match="has_segments=True"):
        static.fill(pad(paired(20), KEY), torch.Tensor.copy_)
    zeros = pack([random_ids(0, 20, 9)], [np.zeros(20, np.uint8)])
    static.fill(pad(zeros, KEY), torch.Tensor.copy_)


def test_skips_without_a_buffer_for_them_are_refused_unless_they_are_all_0() -> None:
    static = StaticBatch.allocate(KEY, CPU, has_segments=False)
    assert static.batch.skips is None
    with pytest.raises(ValueError, match="has_skips=True"):
        static.fill(pad(prompted(20), KEY), torch.Tensor.copy_)
    static.fill(pad(pack([random_ids(0, 20, 9)], skips=[0]), KEY), torch.Tensor.copy_)
