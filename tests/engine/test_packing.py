"""Linear layers whose weights oneDNN lays out give what plain ones give, and are not taken where they cannot be."""

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
from headrace_engine.models import packing
from headrace_engine.models.layers import Linear, read_activation

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def tensors(dtype: torch.dtype, outputs: int = 96, inputs: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(outputs, inputs, generator=random) / inputs**0.5
    return weight.to(dtype), torch.randn(outputs, generator=random).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("name", [None, *ACTIVATIONS])
@torch.inference_mode()
def test_a_packed_layer_gives_what_a_plain_one_gives(dtype: torch.dtype, has_bias: bool, name: str | None) -> None:
    weight, bias = tensors(dtype)
    layer = Linear(packing.pack(weight), bias if has_bias else None)
    activation = None if name is None else read_activation(Document(Path("config.json"), {"act": name}), "act")
    for num_rows in (1, 2, 7, 64, 300):
        rows = torch.randn(num_rows, 64, generator=torch.Generator().manual_seed(num_rows)).to(dtype)
        plain = F.linear(rows.float(), weight.float(), bias.float() if has_bias else None)
        expected = plain if name is None else ACTIVATIONS[name](plain)
        found = layer(rows, activation)
        assert found.dtype == dtype
        assert torch.allclose(found.float(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@torch.inference_mode()
def test_a_row_does_not_depend_on_its_neighbours() -> None:
    weight, bias = tensors(torch.float32)
    layer = Linear(packing.pack(weight), bias)
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


def test_weights_on_a_cpu_are_packed() -> None:
    weight, _ = tensors(torch.float32)
    assert packing.pack(weight).is_mkldnn


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_dtype_that_is_not_computed_in_stays_as_it_is(dtype: torch.dtype) -> None:
    weight, _ = tensors(dtype)
    assert packing.pack(weight) is weight


def test_weights_on_another_device_stay_as_they_are() -> None:
    weight = torch.empty(8, 4, device="meta")
    assert packing.pack(weight) is weight


@pytest.mark.parametrize("name", ["_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported"])
def test_without_any_one_of_the_operators_weights_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    there = ["_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported"]
    some = SimpleNamespace(**{each: getattr(torch.ops.mkldnn, each) for each in there if each != name})
    monkeypatch.setattr(torch.ops, "mkldnn", some)
    for dtype in TOLERANCE:
        weight, _ = tensors(dtype)
        assert packing.pack(weight) is weight


@torch.inference_mode()
def test_without_the_operators_the_plain_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    weight, bias = tensors(torch.float32)
    packed = packing.pack(weight)
    assert packed is weight
    rows = torch.randn(5, 64)
    activation = read_activation(Document(Path("config.json"), {"act": "gelu"}), "act")
    assert torch.equal(Linear(packed, bias)(rows, activation), F.gelu(F.linear(rows, weight, bias)))
