from pathlib import Path
from typing import Any

import pytest
import torch
from headrace_engine import Engine, EngineConfig, precision
from headrace_engine.errors import Misconfigured
from headrace_engine.native.calls import Kernels, kernels
from headrace_engine.native.library import Missing
from headrace_engine.precision import compute_dtype


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device": "gpu"}, "device='gpu' is unknown: set 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ({"attention": "flash"}, "attention='flash' is unknown: set one of auto, fa2"),
        ({"max_graph_tokens": -1}, "max_graph_tokens=-1 is negative"),
        ({"warm_up": ((1, 0),)}, "warm_up has 1 sequences of 0 tokens"),
        ({"dtype": "half"}, "dtype='half' is unknown: set 'auto', 'float32', 'bfloat16' or 'float16'"),
        ({"threads": -1}, "threads=-1 is negative"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EngineConfig(**fields)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", {torch.float32}),
        ("bfloat16", {torch.bfloat16}),
        ("auto", {torch.float32, torch.bfloat16, torch.float16}),
    ],
)
def test_the_dtype_is_that_asked_for_or_the_faster_one(small: Path, dtype: str, expected: set[torch.dtype]) -> None:
    assert Engine.load(small, EngineConfig(dtype=dtype)).dtype in expected


def test_float16_is_that_of_products_on_a_cpu_that_has_our_kernels(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = EngineConfig(dtype="float16", device="cpu")
    if isinstance(kernels(), Kernels):
        assert Engine.load(small, config).dtype == torch.float16
    with pytest.raises(Misconfigured, match=r"is for CPUs, and the device is cuda:0: set 'bfloat16', or 'auto'"):
        compute_dtype(config, torch.device("cuda:0"))
    monkeypatch.setattr(precision, "kernels", lambda: Missing("there is no compiler"))
    with pytest.raises(Misconfigured, match=r"needs Headrace's CPU kernels \(there is no compiler\): set 'float32'"):
        Engine.load(small, config)


def test_threads_are_set_when_asked_for(small: Path) -> None:
    before = torch.get_num_threads()
    try:
        Engine.load(small, EngineConfig(threads=1))
        assert torch.get_num_threads() == 1
        Engine.load(small)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
