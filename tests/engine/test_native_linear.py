"""Linear layers of the compiled kernels: those of float64 but for rounding, bit for bit the same in any batch.

It knows what `Kernels.pack` and `Kernels.linear` promise. It does not know how large tiles and panels are, only sizes
to either side of them.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses
from headrace_engine.native.calls import ActivationName, Kernels

from .native_kernels import error, threads
from .native_sources import needs_compiler

pytestmark = needs_compiler

ACTIVATIONS: dict[ActivationName, Callable[[torch.Tensor], torch.Tensor]] = {
    "identity": lambda x: x,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}
INPUTS = (1, 7, 64, 384, 1536)
OUTPUTS = (1, 5, 63, 64, 65, 384)
NUM_ROWS = (*range(1, 41), 300)
LARGEST_ERROR = {torch.float32: 2e-6, torch.float16: 3e-3}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    return draw(outputs, inputs, seed=1) / inputs**0.5, draw(outputs, seed=2)


@pytest.mark.parametrize("dtype", LARGEST_ERROR)
@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_a_layer_of_any_size_gives_rows_that_are_the_same_in_any_number(
    kernels: Kernels, inputs: int, outputs: int, dtype: torch.dtype
) -> None:
    weight, bias = layer(inputs, outputs)
    panels, rows = kernels.pack(weight, dtype), draw(300, inputs)
    expected = F.linear(rows.double(), weight.double(), bias.double())
    together = kernels.linear(rows, panels, bias, outputs)
    assert together.shape == (300, outputs)
    assert together.dtype == torch.float32
    assert error(together, expected) <= LARGEST_ERROR[dtype]
    for num_rows in NUM_ROWS:
        assert torch.equal(kernels.linear(rows[:num_rows], panels, bias, outputs), together[:num_rows])


@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_follows_with_and_without_a_bias(kernels: Kernels, name: ActivationName, has_bias: bool) -> None:
    for inputs, outputs, num_rows in itertools.product((7, 64), (5, 64, 65), (1, 13)):
        weight, bias = layer(inputs, outputs)
        rows = draw(num_rows, inputs) * 3
        found = kernels.linear(rows, kernels.pack(weight), bias if has_bias else None, outputs, name)
        expected = F.linear(rows.double(), weight.double(), bias.double() if has_bias else None)
        assert error(found, ACTIVATIONS[name](expected)) <= LARGEST_ERROR[torch.float32]


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "relu"])
def test_an_activation_is_right_from_tail_to_tail(kernels: Kernels, name: ActivationName) -> None:
    rows = torch.linspace(-12, 12, 20_001)[:, None]
    found = kernels.linear(rows, kernels.pack(torch.ones(1, 1)), None, 1, name)
    expected = ACTIVATIONS[name](rows.double())
    # Between -1 and 1 rounding is of the last bit of 1, as the tail is added to it; beyond, of the number itself.
    assert ((found - expected).abs() / rows.abs().clamp_min(1)).max() <= 2.5e-7


def test_gelu_is_that_of_the_error_function(kernels: Kernels) -> None:
    rows = torch.linspace(-12, 12, 20_001)[:, None]
    found = kernels.linear(rows, kernels.pack(torch.ones(1, 1)), None, 1, "gelu")
    expected = rows.double() * 0.5 * (1 + torch.erf(rows.double() / 2**0.5))
    assert (found - expected).abs().max() <= 1e-6


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "relu"])
def test_an_activation_is_flat_far_below_zero_and_straight_far_above(kernels: Kernels, name: ActivationName) -> None:
    rows = torch.tensor([20.0, 1e3, 1e10, 1e25])[:, None]
    one = kernels.pack(torch.ones(1, 1))
    assert torch.equal(kernels.linear(rows, one, None, 1, name), rows)
    assert kernels.linear(-rows, one, None, 1, name).abs().max() <= 1e-7


@pytest.mark.parametrize("dtype", LARGEST_ERROR)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_rows_that_are_no_numbers_stay_alone_and_are_not_hidden(
    kernels: Kernels, name: ActivationName, dtype: torch.dtype
) -> None:
    weight, bias = layer(64, 65)
    panels, rows = kernels.pack(weight, dtype), draw(40, 64)
    clean = kernels.linear(rows, panels, bias, 65, name)
    for first, step in ((0, 1), (0, 2), (1, 2), (3, 7)):
        spoilt = rows.clone()
        spoilt[first::step, 5] = torch.nan
        found = kernels.linear(spoilt, panels, bias, 65, name)
        assert found[first::step].isnan().all()
        others = spoilt.isfinite().all(1)
        assert torch.equal(found[others], clean[others])


@pytest.mark.parametrize("dtype", LARGEST_ERROR)
@pytest.mark.parametrize("name", ["identity", "gelu"])
def test_a_row_has_the_same_bits_with_any_threads(kernels: Kernels, name: ActivationName, dtype: torch.dtype) -> None:
    for (inputs, outputs), num_rows in itertools.product(((384, 1536), (1536, 65), (64, 5)), (1, 5, 64, 700)):
        weight, bias = layer(inputs, outputs)
        panels, rows = kernels.pack(weight, dtype), draw(num_rows, inputs)
        with threads(1):
            expected = kernels.linear(rows, panels, bias, outputs, name)
        for number in (2, 3):
            with threads(number):
                assert torch.equal(kernels.linear(rows, panels, bias, outputs, name), expected)
                backwards = kernels.linear(rows.flip(0), panels, bias, outputs, name)
                assert torch.equal(backwards.flip(0), expected)


def test_what_is_too_large_for_float16_on_its_way_is_computed_in_float32(kernels: Kernels) -> None:
    weight, bias = layer(384, 130)
    rows = draw(20, 384)
    panels = kernels.pack(weight, torch.float16)
    clean = kernels.linear(rows, panels, bias, 130)
    rows[3, 200] = 1e6  # no float16
    rows[7] = 6e4  # each of them is one, and many of their sums are none
    rows[11, 0], rows[11, 1] = 1e30, -1e30
    found = kernels.linear(rows, panels, bias, 130)
    expected = F.linear(rows.double(), weight.half().double(), bias.double())
    assert error(found[[3, 11]], expected[[3, 11]]) <= LARGEST_ERROR[torch.float32]
    assert error(found[7], expected[7]) <= LARGEST_ERROR[torch.float16]
    others = [row for row in range(20) if row not in {3, 7, 11}]
    assert torch.equal(found[others], clean[others])


def test_float16_costs_less_than_half_of_what_bfloat16_costs(kernels: Kernels) -> None:
    for inputs in (384, 1536, 4096):
        weight, rows = layer(inputs, 384)[0], draw(64, inputs)
        expected = F.linear(rows.double(), weight.double())
        found = kernels.linear(rows, kernels.pack(weight, torch.float16), None, 384)
        in_bfloat16 = F.linear(rows.bfloat16().double(), weight.bfloat16().double())
        assert error(found, expected) <= 0.6 * error(in_bfloat16, expected)


def test_panels_of_another_dtype_are_refused(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match=r"panels are torch.bfloat16: give float32 or float16"):
        kernels.pack(torch.zeros(1, 1), torch.bfloat16)


@pytest.mark.parametrize("dtype", LARGEST_ERROR)
@pytest.mark.parametrize("outputs", OUTPUTS)
def test_a_packed_weight_takes_its_outputs_rounded_up_to_a_panel_and_no_more(
    kernels: Kernels, outputs: int, dtype: torch.dtype
) -> None:
    panel = kernels.pack(torch.zeros(1, 1), dtype).numel()
    for inputs in INPUTS:
        packed = kernels.pack(torch.zeros(outputs, inputs), dtype)
        assert packed.dtype == dtype
        assert packed.numel() == -(-outputs // panel) * panel * inputs


def test_weights_and_rows_that_are_views_are_taken_for_what_they_show(kernels: Kernels) -> None:
    weight, bias = layer(64, 65)
    rows = draw(40, 64)
    expected = kernels.linear(rows, kernels.pack(weight), bias, 65)
    packed = kernels.pack(weight.T.contiguous().T)
    assert torch.equal(kernels.linear(rows.T.contiguous().T, packed, bias, 65), expected)
    apart = torch.full((40, 130), torch.nan)
    apart[:, ::2][:, :64] = rows
    assert torch.equal(kernels.linear(apart[:, ::2][:, :64], packed, bias, 65), expected)


def test_no_rows_give_no_rows(kernels: Kernels) -> None:
    weight, bias = layer(64, 65)
    assert kernels.linear(torch.empty(0, 64), kernels.pack(weight), bias, 65).shape == (0, 65)
