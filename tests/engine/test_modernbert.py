"""ModernBERT against transformers, on small random models whose window is far shorter than their sequences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, UnsupportedModel

from .checkpoints import change_tensors, edit
from .oracle import engine_rows, rows_alone, save
from .rotary_models import VOCAB, WINDOW, modernbert
from .vectors import random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

# Alone, within the window, at its bounds, and far beyond, with some lengths more than once.
SEQUENCES = [
    random_ids(index, length, VOCAB) for index, length in enumerate((9, 1, 40, 2, 6, 7, 8, 40, 12, 13, 14, 61, 9, 25))
]


def make_modernbert(path: Path, **fields: Any) -> Any:
    return save(modernbert(**fields), path)


def write_as_version_4(path: Path) -> None:
    """Write config.json as the checkpoints on the hub have it, which know neither layer_types nor rope_parameters."""
    edit(
        path / "config.json",
        layer_types=None,
        rope_parameters=None,
        global_attn_every_n_layers=3,
        global_rope_theta=160000.0,
        local_rope_theta=10000.0,
    )


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"norm_bias": True, "attention_bias": True, "mlp_bias": True},
    "norm_bias": {"norm_bias": True},
    "activation": {"hidden_activation": "gelu_pytorch_tanh"},
    "odd_window": {"local_attention": 7},
    "every_second": {"global_attn_every_n_layers": 2},
    "layer_types": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]},
    "no_window": {"layer_types": ["full_attention"] * 4},
    "window_alone": {"layer_types": ["sliding_attention"] * 4},
    "thetas": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 100.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
        }
    },
}


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_float32_rows_are_those_of_transformers(tmp_path: Path, variant: str) -> None:
    model = make_modernbert(tmp_path, **VARIANTS[variant])
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_a_config_of_version_4_gives_the_rows_of_version_5(tmp_path: Path) -> None:
    make_modernbert(tmp_path)
    written_by_5 = engine_rows(tmp_path, SEQUENCES)
    write_as_version_4(tmp_path)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), written_by_5)


def test_fields_that_are_left_out_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    model = make_modernbert(tmp_path, local_attention=128)
    fields = ("layer_types", "rope_parameters", "norm_eps", "norm_bias", "attention_bias", "mlp_bias")
    edit(tmp_path / "config.json", **dict.fromkeys((*fields, "hidden_activation", "local_attention")))
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_the_window_matters_to_sequences_longer_than_it_and_to_no_others(tmp_path: Path) -> None:
    theta = {"rope_type": "default", "rope_theta": 100.0}
    make_modernbert(tmp_path, rope_parameters={"full_attention": theta, "sliding_attention": theta})
    windowed = engine_rows(tmp_path, SEQUENCES)
    edit(tmp_path / "config.json", layer_types=["full_attention"] * 4)
    for tokens, left, right in zip(SEQUENCES, windowed, engine_rows(tmp_path, SEQUENCES), strict=True):
        if tokens.size <= WINDOW + 1:
            np.testing.assert_allclose(left, right, atol=5e-5)
        else:
            assert np.abs(left - right).max() > 1e-2


def test_names_may_carry_a_prefix_and_the_head_of_pre_training_may_be_left_over(tmp_path: Path) -> None:
    make_modernbert(tmp_path)
    plain = engine_rows(tmp_path, SEQUENCES)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"model.{name}"] = tensors.pop(name)
        tensors |= {"head.norm.weight": torch.ones(48), "decoder.bias": torch.zeros(VOCAB)}

    change_tensors(tmp_path, add)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), plain)


@pytest.mark.parametrize(
    ("name", "message"),
    [("layers.0.attn_norm.weight", r"not used.*layers\.0\.attn_norm\.weight"), ("norm.bias", r"not used.*norm\.bias")],
)
def test_a_tensor_that_config_json_rules_out_is_named(tmp_path: Path, name: str, message: str) -> None:
    make_modernbert(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update({name: torch.ones(48)}))
    with pytest.raises(CheckpointError, match=message):
        Engine.load(tmp_path)


THETA = {"rope_type": "default", "rope_theta": 10.0}
YARN = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 2.0}


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"hidden_activation": "mish"}, UnsupportedModel, "hidden_activation='mish' is not supported"),
        ({"layer_types": ["full_attention"]}, CheckpointError, "layer_types lists 1 layers and num_hidden_layers=4"),
        ({"layer_types": ["linear_attention"] * 4}, UnsupportedModel, "'linear_attention', which is not supported"),
        ({"local_attention": 1}, UnsupportedModel, "local_attention=1 is not supported"),
        ({"rope_parameters": THETA}, UnsupportedModel, "parameters stand under full_attention and sliding_attention"),
        ({"rope_parameters": {"sliding_attention": YARN}}, UnsupportedModel, "rope_type='yarn' is not supported"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, UnsupportedModel, "rope_type='linear' is not supported"),
        ({"layer_types": None, "global_attn_every_n_layers": 0}, CheckpointError, "0 is no number of layers"),
        ({"num_attention_heads": 5}, CheckpointError, "hidden_size=48 is no multiple of num_attention_heads=5"),
        ({"num_attention_heads": 16}, CheckpointError, "head_dim=3 is odd"),
        ({"rope_parameters": {"full_attention": [500.0]}}, CheckpointError, r"full_attention=\[500\.0\] should be of"),
        ({"max_position_embeddings": None}, CheckpointError, "max_position_embeddings is missing"),
    ],
)
def test_variants_and_contradictions_are_refused_by_name(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    make_modernbert(tmp_path)
    edit(tmp_path / "config.json", **fields)
    with pytest.raises(error, match=message):
        Engine.load(tmp_path)
