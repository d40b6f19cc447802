"""Qwen3 against transformers and sentence-transformers, causal and bidirectional, on small random models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, OutputOptions, UnsupportedModel, finish, pack

from .byte_level import END, encode, write_tokenizer
from .checkpoints import change_tensors, edit, write, write_modules
from .oracle import engine_rows, rows_alone, save
from .qwen3_models import pplx, qwen3
from .texts import texts
from .vectors import cosines, random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

VOCAB = 150
WIDTH = 48
SEQUENCES = [random_ids(index, length, VOCAB) for index, length in enumerate((7, 1, 33, 20, 7, 64, 33, 2, 50, 33))]
Build = Callable[..., Any]
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"attention_bias": True},
    "activation": {"hidden_act": "gelu_pytorch_tanh"},
    "as_many_keys": {"num_key_value_heads": 4},
    "one_key": {"num_key_value_heads": 1},
    "narrow_heads": {"head_dim": 6},
    "idle_window": {"use_sliding_window": True, "max_window_layers": 3},
    "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0}},
}
both = pytest.mark.parametrize("build", [qwen3, pplx])


@both
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_float32_rows_are_those_of_transformers(tmp_path: Path, build: Build, variant: str) -> None:
    model = save(build(**VARIANTS[variant]), tmp_path)
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


@pytest.mark.parametrize(("build", "sees"), [(qwen3, False), (pplx, True)])
def test_the_first_token_sees_the_last_one_only_where_attention_is_bidirectional(
    tmp_path: Path, build: Build, sees: bool
) -> None:
    model = save(build(), tmp_path)
    edit(tmp_path / "1_Pooling" / "config.json", pooling_mode="cls")
    first = SEQUENCES[2]
    second = np.append(first[:-1], (first[-1] + 1) % VOCAB).astype(np.uint32)
    left, right = engine_rows(tmp_path, [first, second])
    assert bool(np.abs(left - right).max() > 1e-2) == sees
    hidden = model(input_ids=torch.from_numpy(np.stack([first, second]).astype(np.int64))).last_hidden_state
    assert bool((hidden[0, 0] - hidden[1, 0]).abs().max() > 1e-2) == sees


@both
def test_a_config_of_version_4_gives_the_rows_of_version_5(tmp_path: Path, build: Build) -> None:
    save(build(), tmp_path)
    written_by_5 = engine_rows(tmp_path, SEQUENCES)
    fields = {"rope_theta": 500.0, "rope_scaling": None, "rope_parameters": None, "layer_types": None}
    edit(tmp_path / "config.json", **fields, max_window_layers=3, torch_dtype="float32")
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), written_by_5)


def test_fields_that_are_left_out_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    model = save(qwen3(num_attention_heads=32, num_key_value_heads=32, head_dim=128, rope_parameters=None), tmp_path)
    fields = ("num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "rope_parameters", "attention_bias")
    edit(tmp_path / "config.json", **dict.fromkeys((*fields, "use_sliding_window", "max_window_layers", "layer_types")))
    np.testing.assert_allclose(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES), atol=5e-5)


def test_no_number_of_key_heads_is_as_many_as_there_are_heads(tmp_path: Path) -> None:
    save(qwen3(num_key_value_heads=4), tmp_path)
    stated = engine_rows(tmp_path, SEQUENCES)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"num_key_value_heads": 4', '"num_key_value_heads": null'))
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), stated)


def test_names_may_carry_a_prefix_and_the_token_head_may_be_left_over(tmp_path: Path) -> None:
    save(qwen3(), tmp_path)
    plain = engine_rows(tmp_path, SEQUENCES)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"model.{name}"] = tensors.pop(name)
        tensors["lm_head.weight"] = torch.zeros(VOCAB, WIDTH)

    change_tensors(tmp_path, add)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), plain)


YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 2.0}
SLIDING = {"layer_types": None, "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}


@both
@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"hidden_act": "mish"}, UnsupportedModel, "hidden_act='mish' is not supported"),
        ({"layer_types": ["sliding_attention"] * 3}, UnsupportedModel, "layers all see the whole sequence"),
        (SLIDING, UnsupportedModel, "'use_sliding_window': True.*not supported"),
        ({"rope_parameters": YARN}, UnsupportedModel, "rope_type='yarn' is not supported"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, UnsupportedModel, "rope_type='linear' is not supported"),
        ({"num_key_value_heads": 3}, CheckpointError, "num_attention_heads=4 is no multiple of num_key_value_heads=3"),
        ({"head_dim": 21}, CheckpointError, "head_dim=21 is odd"),
        ({"vocab_size": None}, CheckpointError, "vocab_size is missing"),
    ],
)
def test_variants_and_contradictions_are_refused_by_name(
    tmp_path: Path, build: Build, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    save(build(), tmp_path)
    edit(tmp_path / "config.json", **fields)
    with pytest.raises(error, match=message):
        Engine.load(tmp_path)


@pytest.mark.parametrize(
    ("build", "field", "value", "message"),
    [
        (qwen3, "is_causal", False, "is_causal=false with model_type='qwen3' is not supported"),
        (qwen3, "use_bidirectional_attention", True, "use_bidirectional_attention=true with model_type='qwen3'"),
        (pplx, "use_bidirectional_attention", False, "use_bidirectional_attention=false with model_type='bidir"),
        (pplx, "is_causal", True, "is_causal=true with model_type='bidirectional_pplx_qwen3'"),
    ],
)
def test_a_field_that_contradicts_the_direction_of_attention_is_refused(
    tmp_path: Path, build: Build, field: str, value: bool, message: str
) -> None:
    save(build(), tmp_path)
    edit(tmp_path / "config.json", **{field: value})
    with pytest.raises(UnsupportedModel, match=message):
        Engine.load(tmp_path)


# Qwen3-Embedding: the last token is one that the tokenizer appends.

PROMPTS = {"query": "Instruct: Given a question, find an answer\nQuery:", "document": ""}


@pytest.fixture
def embedder(tmp_path: Path) -> Path:
    """A checkpoint with the files of Qwen3-Embedding."""
    save(qwen3(vocab_size=400, max_position_embeddings=512), tmp_path)
    write_tokenizer(tmp_path, padding_side="left")
    write_modules(tmp_path, "Transformer", "Pooling", "Normalize")
    write(tmp_path / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_lasttoken": True})
    write(
        tmp_path / "config_sentence_transformers.json",
        {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    return tmp_path


@pytest.mark.parametrize("prompt", list(PROMPTS))
@pytest.mark.parametrize("batch_size", [1, 16])
def test_last_token_vectors_are_those_of_sentence_transformers_however_it_pads(
    embedder: Path, prompt: str, batch_size: int
) -> None:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - slow, and only these tests need it

    sample = texts()[::5]
    oracle = SentenceTransformer(str(embedder), device="cpu")
    expected = oracle.encode(sample, prompt_name=prompt, batch_size=batch_size, convert_to_numpy=True)
    engine = Engine.load(embedder, EngineConfig(dtype="float32"))
    assert (engine.checkpoint.pooling, engine.checkpoint.normalize) == ("last_token", True)
    tokenizer = oracle.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(engine.checkpoint.max_length)
    sequences = [encode(tokenizer, engine.checkpoint.prompts[prompt] + text) for text in sample]
    assert {sequence[-1] for sequence in sequences} == {tokenizer.token_to_id(END)}
    assert max(sequence.size for sequence in sequences) == engine.checkpoint.max_length
    vectors, good = finish(engine.step(pack(sequences)).numpy(), OutputOptions())
    assert good.all()
    assert cosines(vectors, expected).min() >= 0.99999
    np.testing.assert_allclose(vectors, expected, atol=2e-5)


# pplx-embed: mean pooling, then a quantiser of its own.

QUANTISER = "st_quantize.FlexibleQuantizer"


@pytest.fixture
def quantised(tmp_path: Path) -> tuple[Any, Path]:
    """A checkpoint with the files of pplx-embed, and its model in transformers."""
    model = save(pplx(), tmp_path)
    modules = ("sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling", QUANTISER)
    paths = ("", "1_Pooling", "")
    write(tmp_path / "modules.json", [{"type": kind, "path": path} for kind, path in zip(modules, paths, strict=True)])
    return model, tmp_path


def test_a_quantised_model_offers_int8_first_and_does_not_normalise(quantised: tuple[Any, Path]) -> None:
    checkpoint = Engine.load(quantised[1]).checkpoint
    assert (checkpoint.family, checkpoint.pooling, checkpoint.normalize) == ("bidirectional_pplx_qwen3", "mean", False)
    assert (checkpoint.default_dtype, checkpoint.dtypes) == ("i8", ("i8", "b1", "f32", "f16"))


def test_int8_bits_and_floats_of_a_quantised_model_are_those_of_its_own_quantiser(quantised: tuple[Any, Path]) -> None:
    model, path = quantised
    rows = engine_rows(path, SEQUENCES)
    pooled = torch.from_numpy(rows_alone(model, SEQUENCES))
    int8, _ = finish(rows, OutputOptions(dtype="i8"))
    soft = torch.tanh(pooled) * 127
    # A value within rounding of a half may go either way.
    sure = ((soft - soft.floor() - 0.5).abs() > 1e-2).numpy()
    np.testing.assert_array_equal(int8[sure], soft.round().numpy()[sure])
    assert sure.mean() > 0.95
    bits, _ = finish(rows, OutputOptions(dtype="b1"))
    np.testing.assert_array_equal(bits, np.packbits(pooled.numpy() >= 0, axis=-1))
    floats, _ = finish(rows, OutputOptions(dtype="f32", normalize=False))
    np.testing.assert_allclose(floats, pooled.numpy(), atol=5e-5)
