from pathlib import Path

import pytest
import torch
from headrace_engine import CheckpointError
from headrace_engine.weights import Weights, weight_files
from safetensors.torch import save_file

from .checkpoints import write


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing.*convert them with transformers"):
        weight_files(tmp_path)


@pytest.mark.parametrize("name", ["../x.safetensors", "/x.safetensors", "a/b.safetensors", "..\\x.safetensors", ".."])
def test_an_index_that_leaves_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": name}})
    with pytest.raises(CheckpointError, match=r"weight_map names .* do not trust this checkpoint"):
        weight_files(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": "model-1.safetensors"}})
    with pytest.raises(CheckpointError, match=r"model-1\.safetensors is missing"):
        weight_files(tmp_path)


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        Weights.open(tmp_path, [], torch.float32)


def test_a_tensor_under_two_names_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1), "bert.a": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="tensor a is there twice"):
        Weights.open(tmp_path, ["bert."], torch.float32)


def test_a_tensor_is_converted_as_it_is_taken(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "model.safetensors")
    assert Weights.open(tmp_path, [], torch.bfloat16).take("a", 2).dtype == torch.bfloat16
