import numpy as np
import pytest
from headrace_engine import OutputOptions, finish

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
