from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import OutputOptions, finish, finish_scores

ROWS = np.array([[3, 4, 12], [1, 0, 0]], np.float32)


def test_rows_are_cut_before_they_are_normalised() -> None:
    rows, good = finish(ROWS, OutputOptions(dim=2))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [1.0, 0.0]], rtol=1e-6)
    assert good.tolist() == [True, True]


def test_rows_stay_as_they_are_without_normalisation() -> None:
    rows, good = finish(ROWS, OutputOptions(normalize=False))
    np.testing.assert_array_equal(rows, ROWS)
    assert rows.dtype == "<f4"
    assert good.all()


def test_half_precision_is_cast_last() -> None:
    rows, _ = finish(ROWS * 1e5, OutputOptions(dtype="f16"))
    assert rows.dtype == "<f2"
    np.testing.assert_allclose(np.linalg.norm(rows.astype(np.float32), axis=1), 1, atol=1e-3)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_zeroed_and_spoils_no_other(value: float, normalize: bool) -> None:
    broken = np.vstack([ROWS, [value, 1, 1]]).astype(np.float32)
    rows, good = finish(broken, OutputOptions(normalize=normalize))
    assert good.tolist() == [True, True, False]
    np.testing.assert_array_equal(rows[2], 0)
    np.testing.assert_array_equal(rows[:2], finish(ROWS, OutputOptions(normalize=normalize))[0])


def test_a_row_that_overflows_half_precision_is_zeroed() -> None:
    rows, good = finish(ROWS * 1e4, OutputOptions(dtype="f16", normalize=False))
    assert good.tolist() == [False, True]
    np.testing.assert_array_equal(rows[0], 0)


def test_a_row_without_length_is_bad_only_if_it_should_have_one() -> None:
    zero = np.zeros((1, 3), np.float32)
    assert finish(zero, OutputOptions())[1].tolist() == [False]
    assert finish(zero, OutputOptions(normalize=False))[1].tolist() == [True]


def test_a_row_whose_length_overflows_is_bad() -> None:
    assert finish(np.full((1, 3), 1e30, np.float32), OutputOptions())[1].tolist() == [False]


def test_the_pooled_rows_are_left_unchanged() -> None:
    rows = np.vstack([ROWS, [np.nan, 1, 1]]).astype(np.float32)
    before = rows.copy()
    sent, _ = finish(rows, OutputOptions(normalize=False))
    np.testing.assert_array_equal(rows, before)
    assert not np.shares_memory(sent, rows)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="dim=0 is below 1"):
        OutputOptions(dim=0)
    with pytest.raises(ValueError, match="dtype='f8' is unknown"):
        OutputOptions(dtype="f8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dim=4 is more than the model's 3 dimensions"):
        finish(ROWS, OutputOptions(dim=4))


# Halves of 127·tanh x are not to be met with exactly, so near them either neighbour will do.
GRID = np.linspace(-6, 6, 4001, dtype=np.float32).reshape(1, -1)
# A last byte that is not full.
EDGES = np.array([[0.0, -0.0, 1e-30, -1e-30, 0.001, -0.001, 9.1, -9.1, 3e38, -3e38, 0.5]], np.float32)


def st_quantize(rows: npt.NDArray[np.float32], quantization: str) -> npt.NDArray[Any]:
    """What the module that pplx-embed carries makes of pooled rows, as its st_quantize.py defines it."""
    if quantization == "int8":
        return torch.clamp(torch.round(torch.tanh(torch.from_numpy(rows)) * 127), -128, 127).numpy()
    return np.packbits(np.where(rows >= 0, True, False), axis=-1)


def test_int8_is_what_the_models_own_quantiser_makes() -> None:
    sent, good = finish(GRID, OutputOptions(dtype="i8"))
    assert sent.dtype == np.int8
    assert good.all()
    difference = np.abs(sent - st_quantize(GRID, "int8"))
    exact = 127 * np.tanh(GRID.astype(np.float64))
    assert difference.max() <= 1
    assert not difference[np.abs(exact - np.floor(exact) - 0.5) > 1e-4].any()
    assert (sent.min(), sent.max()) == (-127, 127)


def test_bits_are_those_of_the_models_own_quantiser() -> None:
    for rows in (GRID, EDGES):
        sent, good = finish(rows, OutputOptions(dtype="b1"))
        assert sent.dtype == np.uint8
        assert good.all()
        np.testing.assert_array_equal(sent, st_quantize(rows, "ubinary"))


def test_zeros_of_both_signs_saturation_and_a_last_byte_that_is_not_full() -> None:
    int8, _ = finish(EDGES, OutputOptions(dtype="i8"))
    assert int8.tolist() == [[0, 0, 0, 0, 0, 0, 127, -127, 127, -127, 59]]
    bits, _ = finish(EDGES, OutputOptions(dtype="b1"))
    # The sign is that of the row, not of its int8: −0.001 is 0 there.
    assert bits.tolist() == [[0b11101010, 0b10100000]]


@pytest.mark.parametrize("dtype", ["i8", "b1"])
@pytest.mark.parametrize("normalize", [True, False])
def test_quantised_rows_are_cut_first_and_never_normalised(dtype: Any, normalize: bool) -> None:
    cut, good = finish(ROWS, OutputOptions(dim=2, dtype=dtype, normalize=normalize))
    quantization = {"i8": "int8", "b1": "ubinary"}[dtype]
    np.testing.assert_array_equal(cut, st_quantize(ROWS[:, :2], quantization))
    assert good.all()


@pytest.mark.parametrize("dtype", ["i8", "b1"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_quantised_row_that_is_not_finite_is_zeroed_and_spoils_no_other(dtype: Any, value: float) -> None:
    broken = np.vstack([ROWS, [1, value, 1], ROWS]).astype(np.float32)
    before = broken.copy()
    sent, good = finish(broken, OutputOptions(dtype=dtype))
    assert good.tolist() == [True, True, False, True, True]
    assert not sent[2].any()
    np.testing.assert_array_equal(sent[[0, 1]], finish(ROWS, OutputOptions(dtype=dtype))[0])
    np.testing.assert_array_equal(broken, before)


def test_what_is_not_finite_beyond_the_cut_does_no_harm() -> None:
    broken = np.array([[1, 1, np.nan]], np.float32)
    assert finish(broken, OutputOptions(dim=2, dtype="i8"))[0].tolist() == [[97, 97]]


def test_floats_of_a_quantised_model_are_the_rows_before_tanh() -> None:
    np.testing.assert_array_equal(finish(EDGES, OutputOptions(normalize=False))[0], EDGES)


LOGITS = np.concatenate([np.linspace(-110, 110, 20001), [0.0, -0.0, 1e-30, -1e4, 1e4]]).astype(np.float32)[:, None]


def test_scores_are_the_sigmoid_to_the_last_place() -> None:
    scores, good = finish_scores(LOGITS, "sigmoid")
    assert scores.dtype == np.dtype("<f4")
    assert good.all()
    exact = torch.sigmoid(torch.from_numpy(LOGITS).double()).numpy()
    # Below the least normal number steps are of a fixed size.
    np.testing.assert_allclose(scores, exact, rtol=1e-7, atol=1e-45)
    # torch's float32 is off by up to 1.5e-7 itself, and has none but normal numbers.
    np.testing.assert_allclose(scores, torch.sigmoid(torch.from_numpy(LOGITS)).numpy(), rtol=2e-7, atol=1.2e-38)


@pytest.mark.parametrize(("activation", "raw"), [("identity", False), ("identity", True), ("sigmoid", True)])
def test_raw_scores_are_the_logits(activation: Any, raw: bool) -> None:
    scores, good = finish_scores(LOGITS, activation, raw=raw)
    np.testing.assert_array_equal(scores, LOGITS)
    assert scores.dtype == np.dtype("<f4")
    assert good.all()
    assert not np.shares_memory(scores, LOGITS)


@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_a_logit_that_is_not_finite_is_zero_and_spoils_no_other(activation: Any) -> None:
    logits = np.array([[1], [np.nan], [np.inf], [-np.inf], [2]], np.float32)
    scores, good = finish_scores(logits, activation)
    assert good.tolist() == [True, False, False, False, True]
    assert not scores[1:4].any()
    np.testing.assert_array_equal(scores[[0, 4]], finish_scores(logits[[0, 4]], activation)[0])
    assert np.isnan(logits[1, 0])
