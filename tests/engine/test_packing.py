"""Whatever layout a weight is in, its product gives what a plain layer gives, and the fastest one there is is taken."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses
from headrace_engine.document import Document
from headrace_engine.models import onednn, packing
from headrace_engine.models.activations import read_activation
from headrace_engine.models.layers import Linear
from headrace_engine.models.onednn import OneDnn
from headrace_engine.models.packing import Panels, Plain, Product
from headrace_engine.native.calls import Kernels, kernels
from headrace_engine.native.library import Missing

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
TOLERANCE_OF_FLOAT16 = 1e-2
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def panels(weight: torch.Tensor, dtype: torch.dtype = torch.float32) -> Product:
    own = kernels()
    if isinstance(own, Missing):
        pytest.skip(own.reason)
    return Panels(own, own.pack(weight, dtype), len(weight))


LAYOUTS: dict[str, tuple[Callable[[torch.Tensor], Product], torch.dtype]] = {
    "plain float32": (Plain, torch.float32),
    "plain bfloat16": (Plain, torch.bfloat16),
    "oneDNN float32": (OneDnn.pack, torch.float32),
    "oneDNN bfloat16": (OneDnn.pack, torch.bfloat16),
    "panels float32": (panels, torch.float32),
    "panels float16": (partial(panels, dtype=torch.float16), torch.float32),
}


def tensors(dtype: torch.dtype, outputs: int = 96, inputs: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(outputs, inputs, generator=random) / inputs**0.5
    return weight.to(dtype), torch.randn(outputs, generator=random).to(dtype)


def without_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "kernels", lambda: Missing("left out"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("name", [None, *ACTIVATIONS])
@torch.inference_mode()
def test_a_packed_layer_gives_what_a_plain_one_gives(layout: str, has_bias: bool, name: str | None) -> None:
    make, dtype = LAYOUTS[layout]
    weight, bias = tensors(dtype)
    layer = Linear(make(weight), bias if has_bias else None)
    activation = None if name is None else read_activation(Document(Path("config.json"), {"act": name}), "act")
    for num_rows in (1, 2, 7, 64, 300):
        rows = torch.randn(num_rows, 64, generator=torch.Generator().manual_seed(num_rows)).to(dtype)
        plain = F.linear(rows.float(), weight.float(), bias.float() if has_bias else None)
        expected = plain if name is None else ACTIVATIONS[name](plain)
        found = layer(rows, activation)
        assert found.dtype == dtype
        tolerance = TOLERANCE_OF_FLOAT16 if "float16" in layout.split() else TOLERANCE[dtype]
        assert torch.allclose(found.float(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("layout", ["plain float32", "oneDNN float32", "panels float32", "panels float16"])
@torch.inference_mode()
def test_a_row_does_not_depend_on_its_neighbours(layout: str) -> None:
    weight, bias = tensors(torch.float32)
    layer = Linear(LAYOUTS[layout][0](weight), bias)
    rows = torch.randn(300, 64, generator=torch.Generator().manual_seed(1))
    together = layer(rows)
    spoilt = rows.clone()
    spoilt[::2] = torch.nan
    assert torch.allclose(layer(spoilt)[1::2], together[1::2], atol=1e-6)
    assert torch.allclose(torch.cat([layer(row[None]) for row in rows]), together, atol=1e-5)


def test_few_kernels_are_kept_unless_the_environment_says_otherwise() -> None:
    program = "import headrace_engine, os; print(os.environ['LRU_CACHE_CAPACITY'], os.environ['{}'])"
    found = [
        subprocess.run(
            [sys.executable, "-c", program.format("ONEDNN_PRIMITIVE_CACHE_CAPACITY")],
            env={name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name} | said,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for said in ({}, {"LRU_CACHE_CAPACITY": "7"})
    ]
    assert found == [["128", "128"], ["7", "128"]]


def test_weights_on_a_cpu_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, _ = tensors(torch.float32)
    if isinstance(kernels(), Kernels):
        assert held(weight, torch.float32) == torch.float32
        assert held(weight, torch.float16) == torch.float16
    assert isinstance(packing.pack(weight.bfloat16(), torch.bfloat16), OneDnn)
    without_own_kernels(monkeypatch)
    assert isinstance(packing.pack(weight, torch.float32), OneDnn)


def test_a_weight_that_would_lose_digits_in_float16_stays_float32() -> None:
    weight, _ = tensors(torch.float32)
    panels(weight)  # or else there is nothing to test
    one_too_large = weight.clone()
    one_too_large[3, 5] = 1e5
    for lost in (one_too_large, weight * 1e-6, weight * torch.inf, weight * torch.nan):
        assert held(lost, torch.float16) == torch.float32
    one_small = weight.clone()
    one_small[3, 5] = 1e-7
    for kept in (one_small, weight * 1e3, weight * 1e-2, torch.zeros_like(weight)):
        assert held(kept, torch.float16) == torch.float16


def held(weight: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    packed = packing.pack(weight, dtype)
    assert isinstance(packed, Panels)
    return packed.panels.dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_dtype_that_is_not_computed_in_stays_as_it_is(dtype: torch.dtype) -> None:
    weight, _ = tensors(dtype)
    assert isinstance(packing.pack(weight, dtype), Plain)


def test_weights_on_another_device_stay_as_they_are() -> None:
    assert isinstance(packing.pack(torch.empty(8, 4, device="meta"), torch.float16), Plain)


@pytest.mark.parametrize("name", ["_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported"])
def test_without_any_one_of_the_operators_weights_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    there = ["_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported"]
    some = SimpleNamespace(**{each: getattr(torch.ops.mkldnn, each) for each in there if each != name})
    monkeypatch.setattr(torch.ops, "mkldnn", some)
    for dtype in TOLERANCE:
        assert not onednn.suits(tensors(dtype)[0])


def test_without_any_kernels_the_plain_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    without_own_kernels(monkeypatch)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert isinstance(packing.pack(tensors(torch.float32)[0], torch.float32), Plain)
