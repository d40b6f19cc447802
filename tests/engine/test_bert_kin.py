"""What RoBERTa, DistilBERT and MPNet do otherwise than BERT, against transformers, on small random models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import BatchError, CheckpointError, Engine, UnsupportedModel, pack
from headrace_engine.document import Document
from headrace_engine.models.mpnet import RelativeBias, read_mpnet
from headrace_engine.weights import Weights

from .checkpoints import change_tensors, edit
from .families import PAD_TOKEN_ID, SIZES, VOCAB_SIZE, bert, camembert, distilbert, mpnet, roberta, xlm_roberta
from .oracle import engine_rows, rows_alone, save
from .vectors import cosines, random_ids

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

NUM_POSITIONS = SIZES["max_position_embeddings"]
ROBERTAS = (roberta, xlm_roberta, camembert)
# No id is one of those that a test makes the pad token.
SEQUENCES = [random_ids(seed, length, VOCAB_SIZE - 10) + 10 for seed, length in enumerate((9, 1, 40, 2, 60))]


@pytest.mark.parametrize("build", ROBERTAS)
@pytest.mark.parametrize("pad_token_id", [0, PAD_TOKEN_ID, 5])
def test_positions_begin_after_the_pad_token(tmp_path: Path, build: Callable[..., Any], pad_token_id: int) -> None:
    model = save(build(pad_token_id=pad_token_id), tmp_path)
    assert Engine.load(tmp_path).checkpoint.max_length == NUM_POSITIONS - pad_token_id - 1
    assert cosines(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES)).min() >= 0.99999


@pytest.mark.parametrize("build", ROBERTAS)
def test_the_pad_token_is_1_where_none_is_named(tmp_path: Path, build: Callable[..., Any]) -> None:
    save(build(pad_token_id=1), tmp_path)
    rows = engine_rows(tmp_path, SEQUENCES)
    edit(tmp_path / "config.json", pad_token_id=None)
    np.testing.assert_array_equal(engine_rows(tmp_path, SEQUENCES), rows)


@pytest.mark.parametrize("build", [roberta, mpnet])
@torch.inference_mode()
def test_a_text_that_spells_the_pad_token_is_numbered_like_any_other(tmp_path: Path, build: Callable[..., Any]) -> None:
    model = save(build(), tmp_path)
    ids = np.array([20, PAD_TOKEN_ID, 30, PAD_TOKEN_ID, 40, 50], np.uint32)
    positions = PAD_TOKEN_ID + 1 + torch.arange(ids.size)[None]
    expected = model(input_ids=torch.from_numpy(ids.astype(np.int64))[None], position_ids=positions).last_hidden_state
    np.testing.assert_allclose(engine_rows(tmp_path, [ids]), expected.mean(1).numpy(), atol=2e-5)


def test_positions_of_mpnet_begin_at_2_whatever_the_pad_token(tmp_path: Path) -> None:
    model = save(mpnet(pad_token_id=5), tmp_path)
    assert Engine.load(tmp_path).checkpoint.max_length == 200
    assert cosines(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES)).min() >= 0.99999


@pytest.mark.parametrize("build", [roberta, mpnet])
def test_a_sequence_longer_than_the_positions_is_refused(tmp_path: Path, build: Callable[..., Any]) -> None:
    save(build(), tmp_path)
    engine = Engine.load(tmp_path)
    with pytest.raises(BatchError, match=f"this model takes {engine.checkpoint.max_length}"):
        engine.step(pack([random_ids(1, engine.checkpoint.max_length + 1, VOCAB_SIZE)]))


@pytest.mark.parametrize("pad_token_id", [-2, NUM_POSITIONS - 1])
def test_a_pad_token_that_leaves_no_position_is_refused(tmp_path: Path, pad_token_id: int) -> None:
    save(roberta(), tmp_path)
    edit(tmp_path / "config.json", pad_token_id=pad_token_id)
    with pytest.raises(CheckpointError, match=f"max_position_embeddings={NUM_POSITIONS} leaves no position"):
        Engine.load(tmp_path)


@torch.inference_mode()
@pytest.mark.parametrize("max_seqlen", [1, 2, 17, 200])
def test_the_bias_of_mpnet_is_that_of_transformers(tmp_path: Path, max_seqlen: int) -> None:
    model = save(mpnet(), tmp_path)
    config = read_mpnet(Document.read(tmp_path / "config.json"))
    with Weights.open(tmp_path, config.prefixes, torch.float32) as weights:
        bias = RelativeBias.take(config.layer.num_heads, weights, config.max_positions)(max_seqlen)
    assert torch.equal(bias, model.encoder.compute_position_bias(torch.zeros(1, max_seqlen, 1))[0])


def test_distilbert_may_have_made_its_positions_of_sines(tmp_path: Path) -> None:
    model = save(distilbert(sinusoidal_pos_embds=True), tmp_path)
    assert cosines(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES)).min() >= 0.99999


@pytest.mark.parametrize(
    ("build", "head"),
    [
        (bert, "BertForPreTraining"),
        (roberta, "RobertaForMaskedLM"),
        (xlm_roberta, "XLMRobertaForMaskedLM"),
        (camembert, "CamembertForMaskedLM"),
        (distilbert, "DistilBertForMaskedLM"),
        (mpnet, "MPNetForMaskedLM"),
    ],
)
def test_the_head_of_pre_training_may_be_left_over(tmp_path: Path, build: Callable[..., Any], head: str) -> None:
    import transformers  # noqa: PLC0415 - slow, and only these tests need it

    model = save(getattr(transformers, head)(build().config), tmp_path).base_model
    # A constant that old versions of transformers saved.
    change_tensors(
        tmp_path,
        lambda tensors: tensors.update({f"{model.base_model_prefix}.embeddings.position_ids": torch.arange(64)}),
    )
    assert cosines(engine_rows(tmp_path, SEQUENCES), rows_alone(model, SEQUENCES)).min() >= 0.99999


@pytest.mark.parametrize(
    ("build", "fields", "message"),
    [
        (roberta, {"hidden_act": "mish"}, "hidden_act='mish' is not supported"),
        (roberta, {"is_decoder": True}, "is_decoder=true is not supported"),
        (roberta, {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key' is not"),
        (distilbert, {"activation": "mish"}, "activation='mish' is not supported"),
        (mpnet, {"hidden_act": "mish"}, "hidden_act='mish' is not supported"),
        (mpnet, {"relative_attention_num_buckets": 64}, "relative_attention_num_buckets=64 is not supported.*with 32"),
    ],
)
def test_variants_are_refused(tmp_path: Path, build: Callable[..., Any], fields: dict[str, Any], message: str) -> None:
    save(build(), tmp_path)
    edit(tmp_path / "config.json", **fields)
    with pytest.raises(UnsupportedModel, match=message):
        Engine.load(tmp_path)


def test_heads_of_distilbert_must_share_the_width_evenly(tmp_path: Path) -> None:
    save(distilbert(), tmp_path)
    edit(tmp_path / "config.json", n_heads=5)
    with pytest.raises(CheckpointError, match="dim=48 is no multiple of n_heads=5"):
        Engine.load(tmp_path)
