"""The engine alone takes every shape, and the models that are measured are made of the real one without touching it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from ceiling import Product
from engine_alone import measure
from headrace_engine import Engine, EngineConfig, pack
from headrace_engine.models.bert import BertConfig
from models import Models, prepare
from workloads import SHAPES


@pytest.fixture(scope="module")
def models(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> Models:
    return prepare(str(minilm.checkpoint.path), tmp_path_factory.mktemp("models"), 512)


@pytest.fixture(scope="module")
def embedder(models: Models) -> Engine:
    return Engine.load(models.embedder, EngineConfig(dtype="float32"))


def test_the_embedder_takes_512_tokens_and_gives_the_vectors_of_the_model_it_is_made_of(
    minilm: Engine, embedder: Engine
) -> None:
    assert (minilm.checkpoint.max_length, embedder.checkpoint.max_length) == (256, 512)
    batch = pack([np.arange(2000, 2020, dtype=np.uint32)])
    assert np.allclose(embedder.step(batch).numpy(), minilm.step(batch).numpy(), atol=1e-5)


def test_the_models_own_files_stay_as_they_are(minilm: Engine, tmp_path: Path) -> None:
    files = {file: file.read_bytes() for file in minilm.checkpoint.path.rglob("*.json")}
    prepare(str(minilm.checkpoint.path), tmp_path, 512)
    assert {file: file.read_bytes() for file in files} == files


def test_the_scorer_tells_pairs_apart(models: Models) -> None:
    scorer = Engine.load(models.scorer, EngineConfig(dtype="float32"))
    assert (scorer.checkpoint.tasks, scorer.checkpoint.max_length) == (("score",), 512)
    random = np.random.default_rng(0)
    batch = pack([random.integers(2000, 30000, 100).astype(np.uint32) for _ in range(8)])
    logits = scorer.step(batch).numpy()[:, 0]
    assert np.isfinite(logits).all()
    assert np.ptp(logits) > 0.5


def test_models_are_the_same_each_time(minilm: Engine, models: Models, tmp_path: Path) -> None:
    again = prepare(str(minilm.checkpoint.path), tmp_path, 512)
    for one, other in ((models.embedder, again.embedder), (models.scorer, again.scorer)):
        assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.mark.whole_run
def test_every_shape_is_stepped_and_set_against_the_limit(embedder: Engine) -> None:
    encoder = embedder.checkpoint.encoder
    assert isinstance(encoder, BertConfig)
    found = measure(embedder, encoder, Product(encoder, torch.float32), 0.001)
    assert [(steps.shape, steps.tokens) for steps in found] == [(shape.name, shape.num_tokens) for shape in SHAPES]
    for steps in found:
        assert steps.tokens_per_s == pytest.approx(steps.tokens / steps.step.p50_ms * 1000)
        assert steps.flop > 0
        assert steps.limit_share > 0
