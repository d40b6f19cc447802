import numpy as np
import pytest
import torch
from headrace_engine.pooling import Pooling, pool

HIDDEN = torch.arange(12, dtype=torch.float32).view(6, 2)
CU_SEQLENS = torch.tensor([0, 1, 3, 6], dtype=torch.int32)


@pytest.mark.parametrize(
    ("pooling", "rows"),
    [
        ("cls", [[0, 1], [2, 3], [6, 7]]),
        ("mean", [[0, 1], [3, 4], [8, 9]]),
        ("last_token", [[0, 1], [4, 5], [10, 11]]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_sequence_becomes_one_float32_row(pooling: Pooling, rows: list[list[int]], dtype: torch.dtype) -> None:
    pooled = pool(HIDDEN.to(dtype), CU_SEQLENS, pooling)
    assert pooled.dtype == torch.float32
    np.testing.assert_array_equal(pooled, rows)


@pytest.mark.parametrize(
    ("pooling", "rows"),
    [
        ("cls", [[0, 1], [4, 5], [8, 9]]),
        ("mean", [[0, 1], [4, 5], [9, 10]]),
        ("last_token", [[0, 1], [4, 5], [10, 11]]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_that_are_skipped_take_no_part(pooling: Pooling, rows: list[list[int]], dtype: torch.dtype) -> None:
    skips = torch.tensor([0, 1, 1], dtype=torch.int32)
    pooled = pool(HIDDEN.to(dtype), CU_SEQLENS, pooling, skips)
    assert pooled.dtype == torch.float32
    np.testing.assert_array_equal(pooled, rows)


@pytest.mark.parametrize("pooling", ["cls", "mean", "last_token"])
def test_skipping_changes_no_input_and_skipped_rows_spoil_nothing(pooling: Pooling) -> None:
    hidden = HIDDEN.clone()
    hidden[3] = torch.nan
    before, skips = hidden.clone(), torch.tensor([0, 0, 1], dtype=torch.int32)
    assert pool(hidden, CU_SEQLENS, pooling, skips).isfinite().all()
    torch.testing.assert_close(hidden, before, rtol=0, atol=0, equal_nan=True)


def test_the_mean_of_bfloat16_is_summed_in_float32() -> None:
    hidden = torch.ones(1000, 1, dtype=torch.bfloat16)
    assert pool(hidden, torch.tensor([0, 1000], dtype=torch.int32), "mean").item() == 1
