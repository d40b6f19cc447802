"""Layer normalisation of the compiled kernels: torch's in float64 but for rounding, row by row and in place.

It knows what `Kernels.add_norm` promises. It does not know how wide a register is, only widths to either side of it.
"""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses
from headrace_engine.native.calls import Kernels

from .native_kernels import error, threads
from .native_sources import needs_compiler

pytestmark = needs_compiler

WIDTHS = (1, 7, 16, 33, 384, 1024)
LARGEST_ERROR = {torch.float32: 1e-6, torch.bfloat16: 0.003}
DTYPES = tuple(LARGEST_ERROR)
EPS = 1e-12


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def expected_of(
    rows: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    summed = rows.double() if residual is None else rows.double() + residual.double()
    return F.layer_norm(summed, summed.shape[1:], weight.double(), None if bias is None else bias.double(), eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("has_residual", [True, False], ids=["residual", "no residual"])
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_normalised_as_torch_does_in_float64(
    kernels: Kernels, width: int, has_residual: bool, has_bias: bool, dtype: torch.dtype
) -> None:
    weight, bias = draw(width, dtype=dtype, seed=1), draw(width, dtype=dtype, seed=2) if has_bias else None
    for num_rows in (1, 2, 15, 16, 17, 100):
        rows = draw(num_rows, width, dtype=dtype, seed=num_rows)
        residual = draw(num_rows, width, dtype=dtype, seed=3) * 2 if has_residual else None
        expected = expected_of(rows, residual, weight, bias, 1e-5)
        found = kernels.add_norm(rows, residual, weight, bias, 1e-5)
        # A single number less itself is 0, of which an error can be no part.
        assert torch.equal(found, expected) if not expected.any() else error(found, expected) <= LARGEST_ERROR[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_result_takes_the_place_of_the_rows_and_nothing_else(kernels: Kernels, dtype: torch.dtype) -> None:
    around = draw(40, 33, dtype=dtype)
    before = around.clone()
    given = draw(20, 33, dtype=dtype, seed=1), draw(33, dtype=dtype, seed=2), draw(33, dtype=dtype, seed=3)
    kept = [each.clone() for each in given]
    rows, (residual, weight, bias) = around[10:30], given
    found = kernels.add_norm(rows, residual, weight, bias, EPS)
    assert found is rows
    assert torch.equal(around[:10], before[:10])
    assert torch.equal(around[30:], before[30:])
    assert not torch.equal(rows, before[10:30])
    assert all(map(torch.equal, given, kept))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("number", [0.0, 0.5, -3.0, 1024.0])
def test_a_row_of_equal_numbers_becomes_the_bias(
    kernels: Kernels, number: float, width: int, dtype: torch.dtype
) -> None:
    weight, bias = draw(width, dtype=dtype, seed=1), draw(width, dtype=dtype, seed=2)
    rows = torch.full((5, width), number, dtype=dtype)
    found = kernels.add_norm(rows, None, weight, bias, EPS)
    assert torch.equal(found, bias.expand(5, -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e15])
def test_huge_rows_and_tiny_ones_are_normalised_as_others_are(
    kernels: Kernels, size: float, dtype: torch.dtype
) -> None:
    weight, bias = draw(384, dtype=dtype, seed=1), draw(384, dtype=dtype, seed=2)
    rows, residual = draw(20, 384, dtype=dtype) * size, draw(20, 384, dtype=dtype, seed=3) * size
    expected = expected_of(rows, residual, weight, bias, EPS)
    assert error(kernels.add_norm(rows, residual, weight, bias, EPS), expected) <= LARGEST_ERROR[dtype]


def test_a_mean_far_from_zero_costs_no_more_than_what_the_numbers_lack(kernels: Kernels) -> None:
    weight, bias = draw(384, seed=1), draw(384, seed=2)
    # Quarters, which float32 still has beside 100,000.
    rows = (draw(20, 384) * 4).round() / 4 + 1e5
    expected = expected_of(rows, None, weight, bias, EPS)
    assert error(kernels.add_norm(rows, None, weight, bias, EPS), expected) <= 1e5 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_has_the_same_bits_alone_in_any_batch_and_with_any_threads(
    kernels: Kernels, width: int, dtype: torch.dtype
) -> None:
    weight, bias = draw(width, dtype=dtype, seed=1), draw(width, dtype=dtype, seed=2)
    rows, residual = draw(700, width, dtype=dtype), draw(700, width, dtype=dtype, seed=3)
    with threads(1):
        together = kernels.add_norm(rows.clone(), residual, weight, bias, EPS)
        for index in (0, 1, 15, 16, 350, 699):
            one = slice(index, index + 1)
            assert torch.equal(kernels.add_norm(rows[one].clone(), residual[one], weight, bias, EPS), together[one])
    for number in (2, 3):
        with threads(number):
            assert torch.equal(kernels.add_norm(rows.clone(), residual, weight, bias, EPS), together)
            backwards = kernels.add_norm(rows.flip(0), residual.flip(0), weight, bias, EPS)
            assert torch.equal(backwards.flip(0), together)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_no_number_stays_alone_and_is_not_hidden(
    kernels: Kernels, wrong: float, dtype: torch.dtype
) -> None:
    weight, bias = draw(33, dtype=dtype, seed=1), draw(33, dtype=dtype, seed=2)
    rows, residual = draw(50, 33, dtype=dtype), draw(50, 33, dtype=dtype, seed=3)
    clean = kernels.add_norm(rows.clone(), residual, weight, bias, EPS)
    for place in (0, 31, 32):
        spoilt = rows.clone()
        spoilt[::3, place] = wrong
        found = kernels.add_norm(spoilt, residual, weight, bias, EPS)
        assert found[::3].isnan().any(1).all()
        for first in (1, 2):
            assert torch.equal(found[first::3], clean[first::3])


def test_a_residual_that_is_a_view_is_taken_for_what_it_shows(kernels: Kernels) -> None:
    weight, rows, residual = draw(33, seed=1), draw(50, 33), draw(50, 33, seed=3)
    expected = kernels.add_norm(rows.clone(), residual, weight, None, EPS)
    assert torch.equal(kernels.add_norm(rows.clone(), residual.T.contiguous().T, weight, None, EPS), expected)


def test_no_rows_give_no_rows(kernels: Kernels) -> None:
    assert kernels.add_norm(torch.empty(0, 33), None, draw(33), None, EPS).shape == (0, 33)
