import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import CheckpointError, Engine, EngineConfig, pack
from headrace_engine.weights import Weights, weight_files
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from .checkpoints import change_tensors, write

MAPS = Path("/proc/self/maps")
tells_mappings = pytest.mark.skipif(not MAPS.exists(), reason="the system does not tell which files are mapped")


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


class Watched:
    """An open safetensors file that remembers what was read from it, without keeping it."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.read: list[tuple[str, weakref.ref[torch.Tensor]]] = []

    def keys(self) -> list[str]:
        return list(self.file.keys())

    def get_tensor(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self.file.get_tensor(name)
        self.read.append((name, weakref.ref(tensor)))
        return tensor


def test_tensors_go_from_the_file_to_where_they_are_used_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is read before it is taken, and what was read is gone as soon as it is converted."""
    save_file({name: torch.ones(2) for name in "abcd"}, tmp_path / "model.safetensors")
    opened: list[Watched] = []

    @contextmanager
    def watched_open(file: Path, framework: str) -> Iterator[Watched]:
        with safe_open(file, framework) as real:
            opened.append(Watched(real))
            yield opened[-1]

    monkeypatch.setattr("headrace_engine.weights.safe_open", watched_open)
    with Weights.open(tmp_path, [], torch.bfloat16) as weights:
        (file,) = opened
        for taken in range(4):
            assert [name for name, _ in file.read] == list("dcba")[:taken]
            tensor = weights.take("dcba"[taken], 2)
            assert tensor.dtype == torch.bfloat16
            assert file.read[-1][1]() is None


def is_mapped(file: Path) -> bool:
    """Whether this process has the file in its memory."""
    return str(file) in MAPS.read_text()


@tells_mappings
def test_weight_files_are_mapped_until_the_end(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "model.safetensors")
    with Weights.open(tmp_path, [], torch.float32) as weights:
        assert weights.has("a")
        assert is_mapped(tmp_path / "model.safetensors")
    assert not weights.has("a")
    assert not is_mapped(tmp_path / "model.safetensors")


@tells_mappings
def test_a_damaged_shard_leaves_no_earlier_one_open(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "1.safetensors")
    (tmp_path / "2.safetensors").write_bytes(b"damaged")
    shards = {"a": "1.safetensors", "b": "2.safetensors"}
    write(tmp_path / "model.safetensors.index.json", {"weight_map": shards})
    with pytest.raises(CheckpointError, match=r"2\.safetensors is damaged") as caught:
        Weights.open(tmp_path, [], torch.float32)
    # As long as somebody has the error, its traceback keeps whatever was not closed.
    assert caught.tb is not None
    assert not is_mapped(tmp_path / "1.safetensors")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_quantised_weights_are_refused_by_name(small: Path, dtype: torch.dtype) -> None:
    name = "encoder.layer.0.output.dense.weight"
    change_tensors(small, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    text = rf"tensor {re.escape(name)} is {dtype}, quantised weights are not supported: use a checkpoint in float32"
    with pytest.raises(CheckpointError, match=text):
        Engine.load(small, EngineConfig(dtype="float32"))


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
