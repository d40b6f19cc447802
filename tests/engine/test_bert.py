"""The encoder against transformers, on small random models."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, UnsupportedModel, pack

from .checkpoints import TOKENIZER, change_tensors, edit, write, write_pooling
from .vectors import random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

LENGTHS = (7, 1, 33, 20, 7, 33, 64, 33, 33, 2)
POOLS = {"cls": "cls", "mean": "mean", "last_token": "lasttoken"}


def make_bert(path: Path, max_shard_size: str = "1GB", **fields: Any) -> Any:
    """Save a random BERT as sentence-transformers would, and return it."""
    from transformers import BertConfig, BertModel  # noqa: PLC0415 - slow, and only these tests need it

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=150,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,
        **fields,
    )
    model = BertModel(config).train(mode=False)
    model.save_pretrained(path, max_shard_size=max_shard_size)
    write(path / "tokenizer.json", TOKENIZER)
    return model


def reference(model: Any, ids: npt.NDArray[Any], segments: npt.NDArray[Any], pooling: str) -> npt.NDArray[Any]:
    with torch.inference_mode():
        hidden = model(
            input_ids=torch.from_numpy(ids.astype(np.int64))[None],
            token_type_ids=torch.from_numpy(segments.astype(np.int64))[None],
        ).last_hidden_state[0]
    pooled = {"cls": hidden[0], "mean": hidden.mean(0), "last_token": hidden[-1]}[pooling]
    rows: npt.NDArray[Any] = pooled.numpy()
    return rows


@pytest.mark.parametrize("pooling", list(POOLS))
@pytest.mark.parametrize("with_segments", [False, True])
def test_rows_are_those_of_transformers(tmp_path: Path, pooling: str, with_segments: bool) -> None:
    model = make_bert(tmp_path)
    write_pooling(tmp_path, embedding_dimension=48, pooling_mode=POOLS[pooling])
    engine = Engine.load(tmp_path, EngineConfig(dtype="float32"))
    ids = [random_ids(index, length, 150) for index, length in enumerate(LENGTHS)]
    segments = [(np.arange(length) > length // 2).astype(np.uint8) * with_segments for length in LENGTHS]
    rows = engine.step(pack(ids, segments if with_segments else None)).numpy()
    expected = np.stack([reference(model, *pair, pooling) for pair in zip(ids, segments, strict=True)])
    np.testing.assert_allclose(rows, expected, atol=2e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_every_supported_activation_is_that_of_transformers(tmp_path: Path, activation: str) -> None:
    model = make_bert(tmp_path, hidden_act=activation)
    ids = random_ids(1, 30, 150)
    rows = Engine.load(tmp_path, EngineConfig(dtype="float32")).step(pack([ids])).numpy()
    np.testing.assert_allclose(rows[0], reference(model, ids, np.zeros(30), "mean"), atol=2e-5)


def test_shards_give_the_rows_of_one_file(tmp_path: Path) -> None:
    make_bert(tmp_path / "whole")
    make_bert(tmp_path / "shards", max_shard_size="40KB")
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
    batch = pack([random_ids(1, 30, 150)])
    whole, shards = (
        Engine.load(tmp_path / name, EngineConfig(dtype="float32")).step(batch).numpy() for name in ("whole", "shards")
    )
    np.testing.assert_array_equal(whole, shards)


def test_names_may_carry_the_prefix_of_a_larger_model(small: Path) -> None:
    batch = pack([random_ids(1, 30, 120)])
    plain = Engine.load(small, EngineConfig(dtype="float32")).step(batch).numpy()

    def prefix(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"bert.{name}"] = tensors.pop(name)

    change_tensors(small, prefix)
    np.testing.assert_array_equal(Engine.load(small, EngineConfig(dtype="float32")).step(batch).numpy(), plain)


def test_position_ids_and_the_pooler_may_be_left_over(small: Path) -> None:
    def add(tensors: dict[str, torch.Tensor]) -> None:
        tensors["embeddings.position_ids"] = torch.arange(80)
        tensors["pooler.dense.weight"] = torch.zeros(32, 32)

    change_tensors(small, add)
    assert Engine.load(small).checkpoint.family == "bert"


def test_a_missing_tensor_is_named(small: Path) -> None:
    change_tensors(small, lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias"))
    with pytest.raises(CheckpointError, match=r"tensor encoder\.layer\.1\.output\.dense\.bias is missing"):
        Engine.load(small)


def test_an_unused_tensor_is_named(small: Path) -> None:
    change_tensors(small, lambda tensors: tensors.update({"classifier.weight": torch.zeros(1, 32)}))
    with pytest.raises(CheckpointError, match=r"1 tensors are not used.*classifier\.weight"):
        Engine.load(small)


def test_a_layer_too_many_is_named(small: Path) -> None:
    edit(small / "config.json", num_hidden_layers=1)
    with pytest.raises(CheckpointError, match=r"not used.*encoder\.layer\.1\."):
        Engine.load(small)


def test_a_wrong_shape_is_named_with_both_shapes(small: Path) -> None:
    edit(small / "config.json", vocab_size=121)
    with pytest.raises(CheckpointError, match=r"word_embeddings\.weight has shape \[120, 32\].*asks for \[121, 32\]"):
        Engine.load(small)


@pytest.mark.parametrize("field", ["vocab_size", "num_attention_heads", "layer_norm_eps", "hidden_act"])
def test_a_missing_config_field_is_named(small: Path, field: str) -> None:
    edit(small / "config.json", **{field: None})
    with pytest.raises(CheckpointError, match=rf"config\.json: {field} is missing"):
        Engine.load(small)


@pytest.mark.parametrize("value", ["32", 32.5, True, [32]])
def test_a_config_field_of_the_wrong_type_is_named(small: Path, value: object) -> None:
    edit(small / "config.json", hidden_size=value)
    with pytest.raises(CheckpointError, match=r"hidden_size=.* should be of type int"):
        Engine.load(small)


def test_heads_must_share_the_width_evenly(small: Path) -> None:
    edit(small / "config.json", num_attention_heads=5)
    with pytest.raises(CheckpointError, match="hidden_size=32 is no multiple of num_attention_heads=5"):
        Engine.load(small)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model_type", "gpt2", "model_type='gpt2' is not supported: use a model of one of these: bert"),
        ("hidden_act", "mish", "hidden_act='mish' is not supported.*gelu, gelu_new, gelu_pytorch_tanh, relu"),
        ("position_embedding_type", "relative_key", "position_embedding_type='relative_key' is not supported"),
        ("is_decoder", True, "is_decoder=true is not supported"),
    ],
)
def test_unknown_variants_are_refused_with_what_is_supported(
    small: Path, field: str, value: object, message: str
) -> None:
    edit(small / "config.json", **{field: value})
    with pytest.raises(UnsupportedModel, match=message):
        Engine.load(small)
