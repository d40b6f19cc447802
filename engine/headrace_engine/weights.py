"""The tensors of a checkpoint, by name, each taken exactly once.

It knows safetensors files and how strict to be about names and shapes. It does not know what any tensor is for.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from headrace_engine.document import Document
from headrace_engine.errors import CheckpointError


class Weights:
    """Tensors waiting to be taken by a model; what is left over at the end is an error."""

    def __init__(self, path: Path, tensors: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        """Hold tensors.

        Args:
            path: Their directory, for messages.
            tensors: The tensors by canonical name.
            dtype: What to convert each to as it is taken.
        """
        self._path = path
        self._tensors = tensors
        self._dtype = dtype

    @classmethod
    def read(cls, path: Path, prefixes: Sequence[str], dtype: torch.dtype) -> "Weights":
        """Read all weight files of a directory.

        Args:
            path: The directory.
            prefixes: What may stand before the canonical names, such as "bert."; the first that fits is cut off.
            dtype: What to convert each tensor to as it is taken.

        Raises:
            CheckpointError: A file is missing or damaged, or two tensors have one name.
        """
        tensors: dict[str, torch.Tensor] = {}
        for file in weight_files(path):
            for stored, tensor in _load(file).items():
                name = stored.removeprefix(next((prefix for prefix in prefixes if stored.startswith(prefix)), ""))
                if name in tensors:
                    message = f"{file}: tensor {name} is there twice: save the checkpoint again"
                    raise CheckpointError(message)
                tensors[name] = tensor
        return cls(path, tensors, dtype)

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Take a tensor out.

        Raises:
            CheckpointError: It is not there, or of another shape.
        """
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            message = f"{self._path}: tensor {name} is missing: the weights are not those of config.json's model"
            raise CheckpointError(message)
        if tensor.shape != shape:
            message = (
                f"{self._path}: tensor {name} has shape {list(tensor.shape)} and config.json asks for {list(shape)}: "
                "take both from one checkpoint"
            )
            raise CheckpointError(message)
        return tensor.to(self._dtype)

    def close(self, ignored: Sequence[str]) -> None:
        """Check that every tensor was taken.

        Args:
            ignored: Beginnings of the names that may be left over.

        Raises:
            CheckpointError: Another one was left over.
        """
        unused = sorted(name for name in self._tensors if not name.startswith(tuple(ignored)))
        if unused:
            message = (
                f"{self._path}: {len(unused)} tensors are not used by this model, the first is {unused[0]}: {_HINT}"
            )
            raise CheckpointError(message)
        self._tensors.clear()


_HINT = "a head or layer the engine does not run would be lost; use a checkpoint of the bare encoder"


def weight_files(path: Path) -> list[Path]:
    """List the safetensors files of a directory, sorted by name: model.safetensors, or else the shards of its index.

    Raises:
        CheckpointError: There are none, or the index names a file outside the directory or one that is missing.
    """
    single = path / "model.safetensors"
    if single.is_file():
        return [single]
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        message = (
            f"{path}: model.safetensors is missing; pickle files (.bin) are never read, since loading one runs code: "
            "convert them with transformers, AutoModel.from_pretrained(path).save_pretrained(path)"
        )
        raise CheckpointError(message)
    names = sorted({str(name) for name in Document.read(index).require("weight_map", dict).values()})
    for name in names:
        # The index is data from elsewhere: only plain file names, so that no path leads out of the directory.
        if "/" in name or "\\" in name or not name.endswith(".safetensors"):
            message = f"{index}: weight_map names {name!r}, no plain .safetensors file: do not trust this checkpoint"
            raise CheckpointError(message)
        if not (path / name).is_file():
            message = f"{path / name} is missing, and {index.name} names it: download the whole checkpoint"
            raise CheckpointError(message)
    return [path / name for name in names]


def _load(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except SafetensorError as error:
        message = f"{file} is damaged ({error}): download it again"
        raise CheckpointError(message) from error
