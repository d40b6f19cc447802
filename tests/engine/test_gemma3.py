"""Gemma 3 with attention to both sides against transformers, and EmbeddingGemma's chain against sentence-transformers.

The models are small and random, and their window far shorter than their sequences.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, OutputOptions, UnsupportedModel, finish, pack
from tokenizers import Tokenizer

from .checkpoints import change_tensors, edit
from .oracle import engine_rows, rows_alone, save, scatter
from .rotary_models import GEMMA3, VOCAB, WINDOW, gemma3
from .vectors import random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

# Alone, within the window, at its bounds, and far beyond, with some lengths more than once.
SEQUENCES = [
    random_ids(index, length, VOCAB) for index, length in enumerate((9, 1, 40, 2, 6, 7, 8, 40, 12, 13, 14, 61, 9, 25))
]


def make_gemma3(path: Path, **fields: Any) -> Any:
    return save(gemma3(**fields), path)


def write_as_version_4(path: Path) -> None:
    """Write config.json in the fields of google/embeddinggemma-300m, which knows no rope_parameters."""
    thetas = {"rope_theta": 1_000_000, "rope_local_base_freq": 10_000.0}
    edit(path / "config.json", rope_parameters=None, rope_scaling=None, **thetas)


THETA = {"rope_type": "default", "rope_theta": 20.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"attention_bias": True},
    "many_groups": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "no_groups": {"num_key_value_heads": 3},
    "activation": {"hidden_activation": "silu"},
    "odd_window": {"sliding_window": 7},
    "eps": {"rms_norm_eps": 0.1},
    "layer_types": {"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]},
    "no_window": {"layer_types": ["full_attention"] * 4},
    "window_alone": {"layer_types": ["sliding_attention"] * 4},
    "thetas": {"rope_parameters": {"full_attention": {**THETA, "rope_theta": 100.0}, "sliding_attention": THETA}},
}


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_float32_rows_are_those_of_transformers(tmp_path: Path, variant: str) -> None:
    model = make_gemma3(tmp_path, **VARIANTS[variant])
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_a_config_of_version_4_gives_the_rows_of_version_5(tmp_path: Path) -> None:
    make_gemma3(tmp_path)
    written_by_5 = engine_rows(tmp_path, SEQUENCES)
    write_as_version_4(tmp_path)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), written_by_5)
    edit(tmp_path / "config.json", layer_types=None, sliding_window_pattern=3)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), written_by_5)


def test_fields_that_are_left_out_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    from transformers import Gemma3TextConfig, Gemma3TextModel  # noqa: PLC0415 - slow, and only these tests need it

    heads = ("num_attention_heads", "num_key_value_heads", "head_dim", "query_pre_attn_scalar")
    left_out = (*heads, "sliding_window", "sliding_window_pattern")
    torch.manual_seed(3)
    config = Gemma3TextConfig(**{field: value for field, value in GEMMA3.items() if field not in left_out})
    model = save(Gemma3TextModel(config), tmp_path)
    others = ("layer_types", "rope_parameters", "rms_norm_eps", "hidden_activation", "attention_bias")
    edit(tmp_path / "config.json", **dict.fromkeys((*left_out, *others)))
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_the_window_matters_to_sequences_longer_than_it_and_to_no_others(tmp_path: Path) -> None:
    make_gemma3(tmp_path, rope_parameters={"full_attention": THETA, "sliding_attention": THETA})
    windowed = engine_rows(tmp_path, SEQUENCES)
    edit(tmp_path / "config.json", layer_types=["full_attention"] * 4)
    for ids, left, right in zip(SEQUENCES, windowed, engine_rows(tmp_path, SEQUENCES), strict=True):
        if ids.size <= WINDOW + 1:
            np.testing.assert_allclose(left, right, atol=5e-5)
        else:
            assert np.abs(left - right).max() > 1e-2


def test_names_may_carry_a_prefix_and_the_token_head_may_be_left_over(tmp_path: Path) -> None:
    make_gemma3(tmp_path)
    plain = engine_rows(tmp_path, SEQUENCES)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"model.{name}"] = tensors.pop(name)
        tensors["lm_head.weight"] = torch.zeros(VOCAB, 48)

    change_tensors(tmp_path, add)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), plain)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"use_bidirectional_attention": False}, UnsupportedModel, "Gemma 3 with causal attention is not supported"),
        ({"use_bidirectional_attention": None}, UnsupportedModel, "Gemma 3 with causal attention is not supported"),
        ({"attn_logit_softcapping": 50.0}, UnsupportedModel, r"attn_logit_softcapping=50\.0 is not supported"),
        ({"hidden_activation": "mish"}, UnsupportedModel, "hidden_activation='mish' is not supported"),
        ({"layer_types": ["chunked_attention"] * 4}, UnsupportedModel, "'chunked_attention', which is not supported"),
        ({"rope_scaling": {"type": "linear", "factor": 8.0}}, UnsupportedModel, "rope_type='linear' is not supported"),
        ({"rope_parameters": THETA}, UnsupportedModel, "parameters stand under full_attention and sliding_attention"),
        ({"num_key_value_heads": 2}, CheckpointError, "num_attention_heads=3 is no multiple of num_key_value_heads=2"),
        ({"head_dim": 3}, CheckpointError, "head_dim=3 is odd"),
        ({"query_pre_attn_scalar": 0}, CheckpointError, r"query_pre_attn_scalar=0\.0 should be above 0"),
        ({"rope_parameters": {"full_attention": [500.0]}}, CheckpointError, r"full_attention=\[500\.0\] should be of"),
        ({"hidden_size": None}, CheckpointError, "hidden_size is missing"),
    ],
)
def test_variants_and_contradictions_are_refused_by_name(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    make_gemma3(tmp_path)
    edit(tmp_path / "config.json", **fields)
    with pytest.raises(error, match=message):
        Engine.load(tmp_path)


def write_tokenizer(path: Path) -> None:
    """Write a tokenizer of numbers that puts a token before each text and one after, as Gemma's does."""
    from tokenizers import models, pre_tokenizers, processors  # noqa: PLC0415 - only this test makes one
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - slow

    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    words = [*special, *map(str, range(VOCAB - len(special)))]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=special[3]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos", "unk")}
    wrap: Any = PreTrainedTokenizerFast
    wrap(tokenizer_object=tokenizer, model_max_length=64, **names).save_pretrained(path)


def test_the_chain_of_embeddinggemma_gives_the_vectors_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - slow
    from sentence_transformers.sentence_transformer import modules  # noqa: PLC0415 - slow

    encoder, path = tmp_path / "encoder", tmp_path / "chain"
    scatter(gemma3()).save_pretrained(encoder)
    write_tokenizer(encoder)
    torch.manual_seed(4)
    dense: dict[str, Any] = {"bias": False, "activation_function": torch.nn.Identity()}
    chain = [
        modules.Transformer(str(encoder)),
        modules.Pooling(48, pooling_mode="mean"),
        modules.Dense(48, 96, **dense),
        modules.Dense(96, 40, **dense),
        modules.Normalize(),
    ]
    oracle = SentenceTransformer(modules=chain, device="cpu", prompts={"query": "5 6 7 "})
    oracle.save(str(path))
    write_as_version_4(path)

    engine = Engine.load(path, EngineConfig(dtype="float32"))
    tokenizer = Tokenizer.from_str(engine.checkpoint.tokenizer_json.decode())
    texts = [" ".join(map(str, random_ids(index, length, 140))) for index, length in enumerate((1, 3, 9, 50, 9, 30))]
    ids = [np.array(tokenizer.encode("5 6 7 " + text).ids, np.uint32) for text in texts]
    vectors, good = finish(engine.step(pack(ids)).numpy(), OutputOptions())
    assert good.all()
    assert (engine.checkpoint.dim, engine.checkpoint.normalize, engine.checkpoint.max_length) == (40, True, 64)
    np.testing.assert_allclose(vectors, oracle.encode(texts, prompt_name="query"), atol=1e-5)
