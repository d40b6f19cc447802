"""GTE against transformers, on small random models, with config.json as transformers and as Alibaba write it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, UnsupportedModel

from .checkpoints import change_tensors, edit, write
from .oracle import engine_rows, rows_alone, save
from .rotary_models import HEAD_DIM, VOCAB, gte
from .vectors import random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

SEQUENCES = [random_ids(index, length, VOCAB) for index, length in enumerate((9, 1, 40, 2, 17, 40, 64, 9))]
SEGMENTS = [(np.arange(ids.size) > ids.size // 2).astype(np.uint32) for ids in SEQUENCES]

# What Alibaba-NLP/gte-base-en-v1.5 says, but for the sizes.
ALIBABA: dict[str, Any] = {
    "model_type": "new",
    "architectures": ["NewModel"],
    "hidden_act": "gelu",
    "hidden_size": 4 * HEAD_DIM,
    "intermediate_size": 64,
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "pack_qkv": True,
    "position_embedding_type": "rope",
    "rope_scaling": {"factor": 2.0, "type": "ntk"},
    "rope_theta": 500,
    "type_vocab_size": 0,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
    "vocab_size": VOCAB,
}
# How transformers writes that scaling: docs/source/en/model_doc/gte.md in its repository.
STRETCHED = {"rope_type": "linear", "rope_theta": 500 * 2.0, "factor": 2.0 ** (2 / HEAD_DIM)}


def make_gte(path: Path, **fields: Any) -> Any:
    """Save one, with config.json as transformers writes it."""
    return save(gte(**fields), path)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "activation": {"hidden_act": "silu"},
    "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 20.0}},
    "stretched": {"rope_parameters": STRETCHED},
    "no_segments": {"type_vocab_size": 0},
    "eps": {"layer_norm_eps": 0.1},
}


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_float32_rows_are_those_of_transformers(tmp_path: Path, variant: str) -> None:
    model = make_gte(tmp_path, **VARIANTS[variant])
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_rows_with_segments_are_those_of_transformers(tmp_path: Path) -> None:
    model = make_gte(tmp_path, type_vocab_size=2)
    expected = rows_alone(model, SEQUENCES, SEGMENTS)
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES, SEGMENTS), expected, atol=5e-5)


def test_a_config_of_alibaba_gives_the_rows_of_the_one_that_transformers_makes_of_it(tmp_path: Path) -> None:
    model = make_gte(tmp_path, rope_parameters=STRETCHED, type_vocab_size=0)
    write(tmp_path / "config.json", ALIBABA)
    checkpoint = Engine.load(tmp_path).checkpoint
    assert (checkpoint.family, checkpoint.max_length, checkpoint.num_segments) == ("new", 64, 1)
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_the_scaling_of_positions_matters(tmp_path: Path) -> None:
    make_gte(tmp_path, type_vocab_size=0)
    write(tmp_path / "config.json", ALIBABA)
    stretched = engine_rows(tmp_path, SEQUENCES)
    edit(tmp_path / "config.json", rope_scaling=None)
    longest = [ids.size for ids in SEQUENCES].index(64)
    assert np.abs(stretched - engine_rows(tmp_path, SEQUENCES))[longest].max() > 1e-2


@pytest.mark.parametrize(("model_type", "theta"), [("gte", 160_000.0), ("new", 10_000.0)])
def test_fields_that_are_left_out_have_the_defaults_of_their_configuration(
    tmp_path: Path, model_type: str, theta: float
) -> None:
    model = make_gte(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": theta})
    left_out = ("hidden_act", "layer_norm_eps", "max_position_embeddings", "type_vocab_size", "rope_parameters")
    edit(tmp_path / "config.json", model_type=model_type, **dict.fromkeys(left_out))
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_names_may_carry_a_prefix_and_the_heads_of_training_may_be_left_over(tmp_path: Path) -> None:
    make_gte(tmp_path)
    plain = engine_rows(tmp_path, SEQUENCES)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"new.{name}"] = tensors.pop(name)
        tensors |= {"new.pooler.dense.weight": torch.zeros(48, 48), "lm_head.dense.weight": torch.zeros(48, 48)}
        # gte-multilingual-base has this one too, without a prefix.
        tensors |= {"classifier.weight": torch.zeros(1, 48), "classifier.bias": torch.zeros(1)}

    change_tensors(tmp_path, add)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), plain)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"hidden_act": "mish"}, UnsupportedModel, "hidden_act='mish' is not supported"),
        ({"layer_norm_type": "rms_norm"}, UnsupportedModel, "layer_norm_type='rms_norm' is not supported"),
        ({"logn_attention_scale": True}, UnsupportedModel, "logn_attention_scale=True is not supported"),
        ({"position_embedding_type": "absolute"}, UnsupportedModel, "position_embedding_type='absolute' is not"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, UnsupportedModel, "rope_scaling=.*'dynamic'.* is not"),
        ({"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.6}}, UnsupportedModel, "without mixed_b, 'ntk'"),
        ({"rope_scaling": {"type": "ntk"}}, CheckpointError, "factor is missing"),
        ({"rope_scaling": {"type": "ntk", "factor": 0.5}}, UnsupportedModel, r"factor=0\.5 in rope_scaling is not"),
        ({"rope_theta": 1}, UnsupportedModel, r"rope_theta=1\.0 is no base above 1"),
        ({"num_attention_heads": 5}, CheckpointError, "hidden_size=48 is no multiple of num_attention_heads=5"),
        ({"head_dim": 7}, CheckpointError, "head_dim=7 is odd"),
        ({"type_vocab_size": -1}, CheckpointError, "type_vocab_size=-1 should be between"),
        ({"intermediate_size": None}, CheckpointError, "intermediate_size is missing"),
    ],
)
def test_variants_and_contradictions_are_refused_by_name(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    make_gte(tmp_path)
    write(tmp_path / "config.json", ALIBABA)
    edit(tmp_path / "config.json", **fields)
    with pytest.raises(error, match=message):
        Engine.load(tmp_path)
