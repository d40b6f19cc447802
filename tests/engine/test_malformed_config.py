"""A config.json with a field that makes no sense, in each family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from headrace_engine import CheckpointError
from headrace_engine.models import read_config
from headrace_engine.models.qwen3 import Qwen3Config

from .checkpoints import write
from .families import FAMILIES
from .qwen3_models import qwen3
from .rotary_models import NOMIC_NAMES, gemma3

VALUES: list[Any] = [0, -1, 7, 1.5, float("nan"), 10**30, True, "x", [1], [[]], {"a": 1}, {"full_attention": [1]}, None]
SIZES = {
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "head_dim"),
    *("max_position_embeddings", "num_key_value_heads", "sliding_window", "local_attention"),
    *("dim", "n_layers", "n_heads", "hidden_dim", "n_embd", "n_layer", "n_head", "n_inner", "n_positions"),
}
# What only some of them write, and a file may have all the same.
OTHERS = ("head_dim", "layer_types", "rope_scaling", "rope_parameters", "rope_theta", "sliding_window_pattern")
UNUSED = {  # by what its family computes
    "qwen3": {"sliding_window"},
    "bidirectional_pplx_qwen3": {"sliding_window"},
}


def nomic_names() -> Any:
    return NOMIC_NAMES


@pytest.mark.parametrize("build", [*FAMILIES, nomic_names])
def test_a_field_that_makes_no_sense_is_refused_as_the_checkpoints_fault(
    tmp_path: Path, build: Callable[[], Any]
) -> None:
    model = build()
    config = model if isinstance(model, dict) else model.config.to_dict()
    for field in [*config, *OTHERS]:
        for value in VALUES:
            write(tmp_path / "config.json", {**config, field: value})
            try:
                read_config(tmp_path)
            except CheckpointError as error:
                assert str(tmp_path / "config.json") in str(error)  # noqa: PT017 - most values are refused, not all


@pytest.mark.parametrize("build", [*FAMILIES, nomic_names])
def test_a_size_below_1_or_beyond_all_bounds_is_refused(tmp_path: Path, build: Callable[[], Any]) -> None:
    model = build()
    config = model if isinstance(model, dict) else model.config.to_dict()
    for field in (SIZES & config.keys()) - UNUSED.get(config["model_type"], set()):
        for value in (0, -8, 10**30):
            write(tmp_path / "config.json", {**config, field: value})
            with pytest.raises(CheckpointError, match=rf"config\.json: \w+={value} should be between 1 and"):
                read_config(tmp_path)


def test_null_is_a_field_left_out(tmp_path: Path) -> None:
    config = gemma3().config.to_dict()
    fields = ("head_dim", "sliding_window", "rms_norm_eps", "attention_bias", "query_pre_attn_scalar")
    write(tmp_path / "config.json", {**config, **dict.fromkeys(fields)})
    with_null = repr(read_config(tmp_path))
    write(tmp_path / "config.json", {field: value for field, value in config.items() if field not in fields})
    assert with_null == repr(read_config(tmp_path))


def test_null_means_to_qwen3_what_it_means_to_transformers(tmp_path: Path) -> None:
    config = {**qwen3().config.to_dict(), "use_sliding_window": True, "max_window_layers": 0, "layer_types": None}
    write(tmp_path / "config.json", {**config, "num_key_value_heads": None, "sliding_window": None})
    found = read_config(tmp_path)
    assert isinstance(found, Qwen3Config)
    assert found.shape.num_kv_heads == found.shape.num_heads
