"""Cross-encoders of every family against sentence-transformers, on small random models."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, UnsupportedModel, finish_scores, pack
from safetensors.torch import load_file, save_file
from tokenizers import Encoding, Tokenizer

from .checkpoints import change_tensors, edit, write, write_modules
from .families import PAD_TOKEN_ID
from .scorers import SCORERS, WORDS, bert, qwen3, save_scorer

# transformers warns about its own deprecations; which ones depends on its version.
pytestmark = pytest.mark.filterwarnings("ignore")

SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
HEADS = ("classifier.", "pre_classifier.", "pooler.", "head.", "score.")
LENGTHS = ((3, 9), (1, 1), (5, 5), (10, 30), (2, 50), (1, 2), (4, 8), (6, 6), (20, 20), (9, 3), (5, 7), (8, 4))


def text(mixer: Random, length: int) -> str:
    # The last word is kept for the test that gives it a vector of its own.
    return " ".join(mixer.choices(WORDS[:-1], k=length))


MIXER = Random(1)  # noqa: S311 - the pairs must be the same on every run
PAIRS = [(text(MIXER, query), text(MIXER, document)) for query, document in LENGTHS]


@dataclass(frozen=True, slots=True)
class Scorer:
    """A checkpoint on disk, and what sentence-transformers makes of `PAIRS`.

    Attributes:
        path: The checkpoint.
        scores: [n], with the activation that is the checkpoint's.
        logits: [n], without it.
    """

    path: Path
    scores: npt.NDArray[np.float32]
    logits: npt.NDArray[np.float32]


@pytest.fixture(scope="module", params=SCORERS, ids=lambda build: build.__name__)
def scorer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    path = tmp_path_factory.mktemp("scorer")
    save_scorer(request.param(), path)
    return scored_by_sentence_transformers(path)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A BERT that a test may change."""
    save_scorer(bert(), tmp_path)
    return tmp_path


def cross_encoder(path: Path) -> Any:
    from sentence_transformers import CrossEncoder  # noqa: PLC0415 - slow, and only these tests need it

    return CrossEncoder(str(path), device="cpu")


def scored_by_sentence_transformers(path: Path) -> Scorer:
    model = cross_encoder(path)
    return Scorer(path, model.predict(PAIRS), model.predict(PAIRS, activation_fn=torch.nn.Identity()))


def logits(engine: Engine, pairs: list[tuple[str, str]]) -> npt.NDArray[np.float32]:
    """[n, 1] the engine's rows for one batch of pairs."""
    encodings = encode(engine, pairs)
    has_segments = engine.checkpoint.num_segments > 1
    segments = [np.array(encoding.type_ids, np.uint8) for encoding in encodings] if has_segments else None
    return engine.step(pack([np.array(encoding.ids, np.uint32) for encoding in encodings], segments)).numpy()


def encode(engine: Engine, pairs: list[tuple[str, str]]) -> list[Encoding]:
    tokenizer = Tokenizer.from_str(engine.checkpoint.tokenizer_json.decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return list(tokenizer.encode_batch(pairs))


def scores(engine: Engine, pairs: list[tuple[str, str]], *, raw: bool = False) -> npt.NDArray[Any]:
    activation = engine.checkpoint.activation
    assert activation is not None
    finished, good = finish_scores(logits(engine, pairs), activation, raw=raw)
    assert good.all()
    return finished[:, 0]


def load(path: Path, dtype: Literal["float32", "bfloat16"] = "float32") -> Engine:
    return Engine.load(path, EngineConfig(dtype=dtype))


def test_float32_scores_are_those_of_sentence_transformers(scorer: Scorer) -> None:
    engine = load(scorer.path)
    assert engine.checkpoint.tasks == ("score",)
    assert engine.checkpoint.dim == 1
    assert np.ptp(scorer.scores) > 0.05
    np.testing.assert_allclose(scores(engine, PAIRS), scorer.scores, atol=1e-5)


def test_raw_scores_are_the_logits_of_sentence_transformers(scorer: Scorer) -> None:
    np.testing.assert_allclose(scores(load(scorer.path), PAIRS, raw=True), scorer.logits, atol=1e-5)


def test_bfloat16_scores_are_near_and_tell_pairs_apart(scorer: Scorer) -> None:
    logits_ = logits(load(scorer.path, "bfloat16"), PAIRS)
    np.testing.assert_allclose(logits_[:, 0], scorer.logits, atol=0.1)
    # Logits rounded to bfloat16 would come out of the cast unchanged.
    assert not np.isin(logits_, torch.from_numpy(logits_).bfloat16().float().numpy()).any()


def test_a_pair_has_the_same_score_alone_and_in_any_order(scorer: Scorer) -> None:
    engine = load(scorer.path)
    together = scores(engine, PAIRS)
    np.testing.assert_allclose(scores(engine, PAIRS[::-1])[::-1], together, atol=1e-5)
    np.testing.assert_allclose(np.concatenate([scores(engine, [pair]) for pair in PAIRS]), together, atol=1e-5)


def test_a_checkpoint_of_sentence_transformers_gives_the_same_scores(scorer: Scorer, tmp_path: Path) -> None:
    cross_encoder(scorer.path).save(str(tmp_path))
    assert (tmp_path / "modules.json").exists()
    np.testing.assert_array_equal(scores(load(tmp_path), PAIRS), scores(load(scorer.path), PAIRS))


def test_every_tensor_of_the_head_is_needed(scorer: Scorer, tmp_path: Path) -> None:
    for file in scorer.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(scorer.path / "model.safetensors")
    head = [name for name in tensors if name.removeprefix("bert.").startswith(HEADS)]
    assert head
    for name in head:
        rest = {other: rows for other, rows in tensors.items() if other != name}
        save_file(rest, tmp_path / "model.safetensors")
        with pytest.raises(CheckpointError, match=rf"tensor {name.removeprefix('bert.')} is missing"):
            load(tmp_path)


def test_segments_tell_the_query_from_the_document(saved: Path) -> None:
    engine = load(saved)
    ids = [np.array(encoding.ids, np.uint32) for encoding in encode(engine, PAIRS)]
    assert np.abs(engine.step(pack(ids)).numpy() - logits(engine, PAIRS)).min() > 1e-4


def test_a_pair_that_is_not_finite_touches_no_other(saved: Path) -> None:
    expected = scores(load(saved), PAIRS)
    change_tensors(saved, lambda tensors: tensors["bert.embeddings.word_embeddings.weight"][-1].fill_(torch.nan))
    poisoned = [PAIRS[0], (WORDS[-1], PAIRS[0][1]), *PAIRS[1:]]
    finished, good = finish_scores(logits(load(saved), poisoned), "sigmoid")
    assert good.tolist() == [index != 1 for index in range(len(poisoned))]
    assert finished[1, 0] == 0
    np.testing.assert_allclose(finished[good, 0], expected, atol=1e-6)


def test_qwen3_reads_the_last_token_that_is_no_padding(tmp_path: Path) -> None:
    model = qwen3()
    save_scorer(model, tmp_path)
    endings = ([5], [5, PAD_TOKEN_ID], [5, PAD_TOKEN_ID, 7], [PAD_TOKEN_ID, 9, 5, PAD_TOKEN_ID, PAD_TOKEN_ID])
    sequences = [np.array(ids, np.uint32) for ids in (*endings, [PAD_TOKEN_ID], [PAD_TOKEN_ID, PAD_TOKEN_ID])]
    with torch.inference_mode():
        expected = [model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0] for ids in sequences]
    rows = load(tmp_path).step(pack(sequences)).numpy()
    np.testing.assert_allclose(rows, torch.stack(expected).numpy(), atol=1e-5)


@pytest.mark.parametrize("named", [SIGMOID, IDENTITY])
def test_the_activation_named_in_config_json_is_that_of_sentence_transformers(saved: Path, named: str) -> None:
    edit(saved / "config.json", sentence_transformers={"activation_fn": named, "version": "4.0.1"})
    np.testing.assert_allclose(scores(load(saved), PAIRS), scored_by_sentence_transformers(saved).scores, atol=1e-5)


@pytest.mark.parametrize("named", [SIGMOID, IDENTITY])
def test_the_activation_in_its_old_field_is_that_of_sentence_transformers(saved: Path, named: str) -> None:
    edit(saved / "config.json", sbert_ce_default_activation_function=named)
    np.testing.assert_allclose(scores(load(saved), PAIRS), scored_by_sentence_transformers(saved).scores, atol=1e-5)


@pytest.mark.parametrize("named", [SIGMOID, IDENTITY, None])
def test_the_activation_beside_modules_json_goes_before_that_in_config_json(saved: Path, named: str | None) -> None:
    cross_encoder(saved).save(str(saved))
    edit(saved / "config_sentence_transformers.json", activation_fn=named)
    edit(saved / "config.json", sentence_transformers={"activation_fn": SIGMOID if named == IDENTITY else IDENTITY})
    np.testing.assert_allclose(scores(load(saved), PAIRS), scored_by_sentence_transformers(saved).scores, atol=1e-5)


def test_without_modules_json_the_file_beside_it_is_not_asked(saved: Path) -> None:
    write(saved / "config_sentence_transformers.json", {"model_type": "CrossEncoder", "activation_fn": IDENTITY})
    np.testing.assert_allclose(scores(load(saved), PAIRS), scored_by_sentence_transformers(saved).scores, atol=1e-5)


@pytest.mark.parametrize("named", ["torch.nn.modules.activation.Tanh", "my_package.Identity", "Sigmoid", ""])
def test_an_unknown_activation_is_refused(saved: Path, named: str) -> None:
    edit(saved / "config.json", sentence_transformers={"activation_fn": named})
    with pytest.raises(UnsupportedModel, match=rf"config\.json: activation_fn='{named}' is not supported"):
        load(saved)


def test_the_activation_counts_for_the_revision(saved: Path) -> None:
    cross_encoder(saved).save(str(saved))
    before = load(saved).checkpoint.revision
    edit(saved / "config_sentence_transformers.json", activation_fn=IDENTITY)
    assert load(saved).checkpoint.revision != before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id2label": {"0": "no", "1": "yes"}}, "id2label has 2 labels and only 1 is supported"),
        ({"id2label": {"0": "no", "1": "yes"}, "num_labels": 1}, "id2label has 2 labels"),
        ({"id2label": {}}, "id2label has 0 labels"),
        ({"id2label": None, "num_labels": 3}, "num_labels=3 and only 1 is supported"),
        ({"id2label": None}, "neither id2label nor num_labels is there, which means 2 labels"),
    ],
)
def test_more_than_one_label_is_refused(saved: Path, fields: dict[str, Any], message: str) -> None:
    edit(saved / "config.json", **fields)
    with pytest.raises(UnsupportedModel, match=message):
        load(saved)


def test_one_label_may_be_counted_by_num_labels_alone(saved: Path) -> None:
    expected = scores(load(saved), PAIRS)
    edit(saved / "config.json", id2label=None, label2id=None, num_labels=1)
    np.testing.assert_array_equal(scores(load(saved), PAIRS), expected)


def test_a_family_without_a_head_is_refused(saved: Path) -> None:
    edit(saved / "config.json", model_type="nomic_bert", architectures=["NomicBertForSequenceClassification"])
    with pytest.raises(UnsupportedModel, match="model_type='nomic_bert' has no classification head here"):
        load(saved)


def test_a_cross_encoder_that_pools_is_not_taken_for_an_embedding_model(saved: Path) -> None:
    write_modules(saved, "Transformer", "Pooling", "Dense")
    write(saved / "config_sentence_transformers.json", {"model_type": "CrossEncoder"})
    with pytest.raises(UnsupportedModel, match="the chain Transformer → Pooling → Dense cannot be run"):
        load(saved)
