from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, pack
from headrace_engine.weights import Weights, weight_files
from safetensors.torch import load_file, save_file

from .checkpoints import write

STATUS = Path("/proc/self/status")


def test_where_there_are_no_weights_both_names_are_given(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing, and so is pytorch_model\.bin"):
        weight_files(tmp_path)


def test_safetensors_are_preferred_to_pickled_weights(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").touch()
    assert [file.name for file in weight_files(tmp_path)] == ["model.safetensors"]


@pytest.mark.parametrize("is_archive", [True, False])
def test_pickled_weights_give_the_same_rows(small: Path, is_archive: bool) -> None:
    batch = pack([np.array([1, 2, 3], np.uint32)])
    expected = Engine.load(small, EngineConfig(dtype="float32")).step(batch).numpy()
    tensors = load_file(small / "model.safetensors")
    (small / "model.safetensors").unlink()
    torch.save(tensors, small / "pytorch_model.bin", _use_new_zipfile_serialization=is_archive)
    np.testing.assert_array_equal(Engine.load(small, EngineConfig(dtype="float32")).step(batch).numpy(), expected)


def test_pickled_shards_are_read_by_their_index(tmp_path: Path) -> None:
    for name in ("a", "b"):
        torch.save({name: torch.ones(2)}, tmp_path / f"{name}.bin")
    write(tmp_path / "pytorch_model.bin.index.json", {"weight_map": {"a": "a.bin", "b": "b.bin"}})
    with Weights.open(tmp_path, [], torch.float32) as weights:
        assert weights.take("b", 2).tolist() == [1, 1]
        with pytest.raises(CheckpointError, match="1 tensors are not used by this model, the first is a"):
            weights.check_all_taken([])


class Evil:
    """Unpickled, it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_code_in_pickled_weights_is_not_run(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2), "b": Evil(tmp_path / "was_here")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="no file of tensors alone, or damaged"):
        Weights.open(tmp_path, [], torch.float32)
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize("content", [{"a": 1}, [torch.ones(1)]])
def test_pickled_files_of_something_else_are_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="holds more than tensors by name"):
        Weights.open(tmp_path, [], torch.float32)


def test_a_damaged_pickle_is_named(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is no file of tensors alone, or damaged"):
        Weights.open(tmp_path, [], torch.float32)


@pytest.mark.skipif(not STATUS.exists(), reason="the kernel does not tell which memory is a file's")
def test_tensors_go_from_the_file_to_where_they_are_used_one_by_one(tmp_path: Path) -> None:
    """Four tensors of 32 MiB each are taken in half as much and dropped: they never pile up."""
    size = 8 * 2**20
    save_file({name: torch.ones(size) for name in "abcd"}, tmp_path / "model.safetensors")
    with Weights.open(tmp_path, [], torch.bfloat16) as weights:
        before = own_kilobytes()
        for name in "abcd":
            taken = weights.take(name, size)
            assert taken.dtype == torch.bfloat16
            assert own_kilobytes() - before < 40 * 1024
            del taken


def own_kilobytes() -> int:
    """Memory of this process that is no file's."""
    return int(next(line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("RssAnon")))


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
