"""Nomic BERT against transformers, on small random models, with config.json in either set of names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, UnsupportedModel

from .checkpoints import change_tensors, edit, write
from .oracle import engine_rows, rows_alone, save
from .rotary_models import NOMIC_NAMES, VOCAB, nomic_bert
from .vectors import random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

SEQUENCES = [random_ids(index, length, VOCAB) for index, length in enumerate((9, 1, 40, 2, 17, 40, 64, 9))]
SEGMENTS = [(np.arange(ids.size) > ids.size // 2).astype(np.uint32) for ids in SEQUENCES]


def make_nomic_bert(path: Path, **fields: Any) -> Any:
    """Save one, with config.json in transformers' names."""
    return save(nomic_bert(**fields), path)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "activation": {"hidden_act": "gelu"},
    "head_dim": {"head_dim": 8},
    "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 20.0}},
    "segments": {"type_vocab_size": 3},
    "eps": {"layer_norm_eps": 0.1},
}


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_float32_rows_are_those_of_transformers(tmp_path: Path, variant: str) -> None:
    model = make_nomic_bert(tmp_path, **VARIANTS[variant])
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_rows_with_segments_are_those_of_transformers(tmp_path: Path) -> None:
    model = make_nomic_bert(tmp_path)
    expected = rows_alone(model, SEQUENCES, SEGMENTS)
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES, SEGMENTS), expected, atol=5e-5)


def test_the_names_of_nomic_give_the_rows_of_those_of_transformers(tmp_path: Path) -> None:
    make_nomic_bert(tmp_path)
    in_transformers_names = engine_rows(tmp_path, SEQUENCES)
    write(tmp_path / "config.json", NOMIC_NAMES)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), in_transformers_names)


def test_every_number_under_the_names_of_nomic_is_read(tmp_path: Path) -> None:
    theta = {"rope_type": "default", "rope_theta": 20.0}
    model = make_nomic_bert(tmp_path, rope_parameters=theta, layer_norm_eps=0.1, type_vocab_size=1)
    write(
        tmp_path / "config.json",
        {**NOMIC_NAMES, "rotary_emb_base": 20, "layer_norm_epsilon": 0.1, "type_vocab_size": 1, "n_positions": 70},
    )
    checkpoint = Engine.load(tmp_path).checkpoint
    assert (checkpoint.family, checkpoint.max_length, checkpoint.num_segments) == ("nomic_bert", 70, 1)
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_fields_that_are_left_out_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    model = make_nomic_bert(tmp_path, max_position_embeddings=2048)
    fields = ("hidden_act", "max_position_embeddings", "layer_norm_eps", "rope_parameters", "head_dim")
    edit(tmp_path / "config.json", **dict.fromkeys(fields))
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)
    assert Engine.load(tmp_path).checkpoint.max_length == 2048


def test_names_may_carry_a_prefix_and_the_head_of_pre_training_may_be_left_over(tmp_path: Path) -> None:
    make_nomic_bert(tmp_path)
    plain = engine_rows(tmp_path, SEQUENCES)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"bert.{name}"] = tensors.pop(name)
        tensors["cls.predictions.decoder.weight"] = torch.zeros(VOCAB, 48)

    change_tensors(tmp_path, add)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), plain)


def test_a_bias_that_config_json_rules_out_is_named(tmp_path: Path) -> None:
    make_nomic_bert(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update({"encoder.layers.0.attn.Wqkv.bias": torch.zeros(144)}))
    with pytest.raises(CheckpointError, match=r"not used.*encoder\.layers\.0\.attn\.Wqkv\.bias"):
        Engine.load(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("activation_function", "gelu", "activation_function='gelu' is not supported: use a model with 'swiglu'"),
        ("causal", True, "causal=True is not supported"),
        ("mlp_fc1_bias", None, "mlp_fc1_bias=True is not supported: use a model with False"),
        ("mlp_fc2_bias", True, "mlp_fc2_bias=True is not supported"),
        ("num_experts", 8, "num_experts=8 is not supported"),
        ("parallel_block", True, "parallel_block=True is not supported"),
        ("prenorm", True, "prenorm=True is not supported"),
        ("qkv_proj_bias", None, "qkv_proj_bias=True is not supported"),
        ("rotary_emb_fraction", None, r"rotary_emb_fraction=0\.0 is not supported: use a model with 1\.0"),
        ("rotary_emb_interleaved", True, "rotary_emb_interleaved=True is not supported"),
        ("rotary_scaling_factor", 2, "rotary_scaling_factor=2 is not supported"),
        ("use_rms_norm", True, "use_rms_norm=True is not supported"),
    ],
)
def test_variants_under_the_names_of_nomic_are_refused(tmp_path: Path, field: str, value: Any, message: str) -> None:
    make_nomic_bert(tmp_path)
    write(tmp_path / "config.json", NOMIC_NAMES)
    edit(tmp_path / "config.json", **{field: value})
    with pytest.raises(UnsupportedModel, match=message):
        Engine.load(tmp_path)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"hidden_act": "mish"}, UnsupportedModel, "hidden_act='mish' is not supported"),
        ({"rope_parameters": {"rope_type": "yarn"}}, UnsupportedModel, "rope_type='yarn' is not supported"),
        ({"rope_scaling": {"type": "dynamic"}}, UnsupportedModel, "rope_type='dynamic' is not supported"),
        ({"num_attention_heads": 5, "head_dim": None}, CheckpointError, "48 is no multiple of num_attention_heads=5"),
        ({"head_dim": 7}, CheckpointError, "head_dim=7 is odd"),
        ({"intermediate_size": None}, CheckpointError, "intermediate_size is missing"),
    ],
)
def test_variants_and_contradictions_are_refused_by_name(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    make_nomic_bert(tmp_path)
    edit(tmp_path / "config.json", **fields)
    with pytest.raises(error, match=message):
        Engine.load(tmp_path)
