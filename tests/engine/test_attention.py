from dataclasses import replace

import numpy as np
import pytest
import torch
from headrace_engine import RaggedBatch, pack
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.blocks import blocks_of
from headrace_engine.attention.reference import Inputs, attend_by_definition, deviation
from headrace_engine.attention.sdpa import SdpaBackend

from .vectors import random_ids

PLAIN = AttentionShape(num_heads=4, num_kv_heads=4, head_dim=32)
SHAPES = {
    "plain": PLAIN,
    "grouped": replace(PLAIN, num_kv_heads=2),
    "one key head": replace(PLAIN, num_kv_heads=1),
    "causal": replace(PLAIN, causal=True),
    "window": replace(PLAIN, window=8),
    "window of none but itself": replace(PLAIN, window=0),
    "causal window": replace(PLAIN, causal=True, window=8),
    "bias": replace(PLAIN, has_position_bias=True),
    "causal bias": replace(PLAIN, causal=True, has_position_bias=True),
    "bias in a window": replace(PLAIN, window=8, has_position_bias=True),
    "scale": replace(PLAIN, scale=0.05),
    "grouped causal window with a scale": replace(PLAIN, num_kv_heads=2, causal=True, window=8, scale=0.3),
    "wide heads": replace(PLAIN, num_kv_heads=2, head_dim=128),
    "odd heads": replace(PLAIN, head_dim=24),
}
LENGTHS = ([1], [5, 3, 9, 10], [20] * 5, [31] * 5, [64] * 4, [8, 40, 40, 40, 40, 8, 130, 2, 130, 257])
TOLERANCE = {torch.float32: 5e-6, torch.bfloat16: 3e-2}


def batch_of(lengths: list[int]) -> RaggedBatch:
    return pack([random_ids(0, length, 9) for length in lengths])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_tokens_attend_to_what_the_shape_lets_them_see_of_their_own_sequence(
    shape: AttentionShape, lengths: list[int], dtype: torch.dtype
) -> None:
    batch = batch_of(lengths)
    inputs = Inputs.draw(batch, shape, dtype)
    assert deviation(SdpaBackend().plan(batch), batch, shape, inputs) < TOLERANCE[dtype]


def test_one_plan_serves_layers_of_several_shapes() -> None:
    batch = batch_of([3, 70, 70, 200])
    attention = SdpaBackend().plan(batch)
    for _ in range(2):
        for shape in (PLAIN, SHAPES["window"], SHAPES["causal"]):
            inputs = Inputs.draw(batch, shape, torch.float32)
            assert deviation(attention, batch, shape, inputs) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_sequence_is_attended_to_as_if_it_were_alone(shape: AttentionShape) -> None:
    batch = batch_of([7, 33, 90])
    inputs = Inputs.draw(batch, shape, torch.float32)
    together = SdpaBackend().plan(batch).run(inputs.query, inputs.key, inputs.value, shape, inputs.bias)
    alone = [
        SdpaBackend().plan(batch_of([len(query)])).run(query, key, value, shape, inputs.bias)
        for query, key, value in zip(
            *(rows.split([7, 33, 90]) for rows in (inputs.query, inputs.key, inputs.value)), strict=True
        )
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=1e-6)


def test_a_neighbour_that_is_no_number_does_not_spread() -> None:
    batch = batch_of([5, 5, 40, 300])
    for shape in SHAPES.values():
        inputs = Inputs.draw(batch, shape, torch.float32)
        for rows in (inputs.query, inputs.key, inputs.value):
            rows[5:50] = torch.nan
        attended = SdpaBackend().plan(batch).run(inputs.query, inputs.key, inputs.value, shape, inputs.bias)
        assert attended[:5].isfinite().all()
        assert attended[50:].isfinite().all()


@pytest.mark.parametrize("length", [1, 2, 9, 10, 24, 25, 64, 65, 192, 500])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 0, 1, 8, 64])
def test_blocks_hold_every_pair_that_sees_each_other_and_no_other(
    window: int | None, causal: bool, length: int
) -> None:
    shape = replace(PLAIN, window=window, causal=causal, has_position_bias=True)
    seen = torch.zeros(length, length, dtype=torch.bool)
    for block in blocks_of(shape, length, torch.device("cpu")):
        seen[block.queries, block.keys] |= True if block.mask is None else block.mask
    ahead = np.arange(length) - np.arange(length)[:, None]
    expected = (np.abs(ahead) <= (length if window is None else window)) & ((ahead <= 0) | (not causal))
    assert np.array_equal(seen.numpy(), expected)


def test_a_long_window_costs_memory_in_proportion_to_the_length() -> None:
    blocks = blocks_of(replace(PLAIN, window=64), 8192, torch.device("cpu"))
    masks = {id(block.mask): block.mask for block in blocks if block.mask is not None}
    assert sum(mask.numel() for mask in masks.values()) < 8192 * 8


def test_the_definition_is_the_one_of_torch() -> None:
    query, key, value = torch.randn(3, 10, 4, 32, generator=torch.Generator().manual_seed(2)).double()
    transposed = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), is_causal=True
    )
    found = attend_by_definition(query, key, value, np.array([0, 10], np.int32), SHAPES["causal"])
    torch.testing.assert_close(found, transposed.transpose(0, 1))
