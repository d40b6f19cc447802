from pathlib import Path
from typing import Any

import pytest
import torch
from headrace_engine import Engine, EngineConfig


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device": "gpu"}, "device='gpu' is unknown: set 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ({"attention": "flash"}, "attention='flash' is unknown: set one of auto, fa2"),
        ({"max_graph_tokens": -1}, "max_graph_tokens=-1 is negative"),
        ({"warm_up": ((1, 0),)}, "warm_up has 1 sequences of 0 tokens"),
        ({"dtype": "float16"}, "dtype='float16' is unknown"),
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
        ("auto", {torch.float32, torch.bfloat16}),
    ],
)
def test_the_dtype_is_that_asked_for_or_the_faster_one(small: Path, dtype: str, expected: set[torch.dtype]) -> None:
    assert Engine.load(small, EngineConfig(dtype=dtype)).dtype in expected


def test_threads_are_set_when_asked_for(small: Path) -> None:
    before = torch.get_num_threads()
    try:
        Engine.load(small, EngineConfig(threads=1))
        assert torch.get_num_threads() == 1
        Engine.load(small)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
