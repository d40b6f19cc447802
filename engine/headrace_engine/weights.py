"""The tensors of a checkpoint, by name, each taken exactly once.

It knows weight files and how strict to be about names and shapes. It does not know what any tensor is for.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from types import TracebackType
from typing import Any, Protocol, Self
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open

from headrace_engine.document import Document, shown
from headrace_engine.errors import CheckpointError


class WeightSource(Protocol):
    """Where a model takes its tensors from: a checkpoint, or random numbers in a benchmark."""

    @property
    def product_dtype(self) -> torch.dtype:
        """What linear layers are to multiply in."""

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Take a tensor out, in the dtype of a batch's rows and on the device; once."""

    def has(self, name: str) -> bool:
        """Tell whether there is such a tensor to take."""


class Weights:
    """Tensors waiting to be taken by a model; what is left over at the end is an error.

    Files are mapped, not read: each tensor goes from there to the device as it is taken, so that no second copy of the
    model ever stands in memory. Use it as a context manager; the end unmaps the files.

    Attributes:
        product_dtype: What linear layers are to multiply in.
    """

    def __init__(self, path: Path, dtype: torch.dtype, device: torch.device, product_dtype: torch.dtype) -> None:
        """Use `open`."""
        self.product_dtype = product_dtype
        self._path = path
        self._dtype = dtype
        self._device = device
        self._files = ExitStack()
        self._stored: dict[str, Callable[[], torch.Tensor]] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        prefixes: Sequence[str],
        dtype: torch.dtype,
        device: torch.device | None = None,
        product_dtype: torch.dtype | None = None,
    ) -> "Weights":
        """Open all weight files of a directory.

        Args:
            path: The directory.
            prefixes: What may stand before the canonical names, such as "bert."; the first that fits is cut off.
            dtype: What to convert each tensor to as it is taken.
            device: Where to put it; None is the CPU.
            product_dtype: What linear layers are to multiply in; None is `dtype`.

        Raises:
            CheckpointError: A file is missing or damaged, or two tensors have one name.
        """
        weights = cls(path, dtype, device or torch.device("cpu"), product_dtype or dtype)
        with ExitStack() as failed:
            failed.push(weights)
            for file in weight_files(path):
                weights._add(file, prefixes)
            failed.pop_all()
        return weights

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stored.clear()
        self._files.close()

    def _add(self, file: Path, prefixes: Sequence[str]) -> None:
        for stored, read in (_open_pickle if file.suffix == ".bin" else self._open_safetensors)(file).items():
            name = stored.removeprefix(next((prefix for prefix in prefixes if stored.startswith(prefix)), ""))
            if name in self._stored:
                message = f"{file}: tensor {name} is there twice: save the checkpoint again"
                raise CheckpointError(message)
            self._stored[name] = read

    def _open_safetensors(self, file: Path) -> dict[str, Callable[[], torch.Tensor]]:
        try:
            opened = self._files.enter_context(safe_open(file, framework="pt"))
        except SafetensorError as error:
            message = f"{file} is damaged ({error}): download it again"
            raise CheckpointError(message) from error
        return {name: partial(opened.get_tensor, name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping

    def has(self, name: str) -> bool:
        """Tell whether there is such a tensor to take."""
        return name in self._stored

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Take a tensor out.

        Raises:
            CheckpointError: It is not there, or of another shape.
        """
        if name not in self._stored:
            message = f"{self._path}: tensor {name} is missing: the weights are not those of config.json's model"
            raise CheckpointError(message)
        tensor = self._stored.pop(name)()
        if tensor.shape != shape:
            message = (
                f"{self._path}: tensor {name} has shape {list(tensor.shape)} and config.json asks for {list(shape)}: "
                "take both from one checkpoint"
            )
            raise CheckpointError(message)
        if not tensor.is_floating_point():
            message = (
                f"{self._path}: tensor {name} is {tensor.dtype}, quantised weights are not supported: "
                "use a checkpoint in float32, float16 or bfloat16"
            )
            raise CheckpointError(message)
        # Pickled tensors may be views of any layout, and not all kernels follow strides.
        return tensor.to(device=self._device, dtype=self._dtype).contiguous()

    def check_all_taken(self, ignored: Sequence[str]) -> None:
        """Check that no tensor is left.

        Args:
            ignored: Beginnings of the names that may be left over.

        Raises:
            CheckpointError: Another one was left over.
        """
        unused = sorted(name for name in self._stored if not name.startswith(tuple(ignored)))
        if unused:
            message = (
                f"{self._path}: {len(unused)} tensors are not used by this model, the first is {unused[0]}: {_HINT}"
            )
            raise CheckpointError(message)


_HINT = "a head or layer the engine does not run would be lost; use a checkpoint of the bare encoder"


def weight_files(path: Path) -> list[Path]:
    """List the weight files of a directory, sorted by name: one safetensors file, or else the shards of its index.

    Where there are neither, pickled files are taken by the same rule.

    Raises:
        CheckpointError: There are none, or the index names a file outside the directory or one that is missing.
    """
    for name, suffix in (("model.safetensors", ".safetensors"), ("pytorch_model.bin", ".bin")):
        if (path / name).is_file():
            return [path / name]
        index = path / f"{name}.index.json"
        if index.is_file():
            return _shards(index, suffix)
    message = f"{path}: model.safetensors is missing, and so is pytorch_model.bin: download the whole checkpoint"
    raise CheckpointError(message)


def _shards(index: Path, suffix: str) -> list[Path]:
    found = Document.read(index).require("weight_map", dict).values()
    names = sorted({name if isinstance(name, str) else shown(name) for name in found})
    for name in names:
        # The index is data from elsewhere: only plain file names, so that no path leads out of the directory.
        if "/" in name or "\\" in name or not name.endswith(suffix):
            message = f"{index}: weight_map names {name!r}, no plain {suffix} file: do not trust this checkpoint"
            raise CheckpointError(message)
        if not (index.parent / name).is_file():
            message = f"{index.parent / name} is missing, and {index.name} names it: download the whole checkpoint"
            raise CheckpointError(message)
    return [index.parent / name for name in names]


def load_pickle(file: Path, device: str) -> dict[str, torch.Tensor]:
    """Read a pickled file of tensors; torch's restricted reader runs no code from it (ops/decisions/0016).

    Raises:
        CheckpointError: It holds anything else, or is damaged.
    """
    try:
        loaded = _load(file, device)
    except (UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        message = f"{file} is no file of tensors alone, or damaged ({error}): take the checkpoint from its author"
        raise CheckpointError(message) from error
    if not isinstance(loaded, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in loaded.values()):
        message = f"{file} holds more than tensors by name: take the checkpoint from its author"
        raise CheckpointError(message)
    return loaded


def _load(file: Path, device: str) -> Any:
    # Mapped where it can be: files from before torch 1.6 are no archives.
    return torch.load(file, map_location=device, weights_only=True, mmap=is_zipfile(file))


def _open_pickle(file: Path) -> dict[str, Callable[[], torch.Tensor]]:
    return {name: partial(_itself, tensor) for name, tensor in load_pickle(file, "cpu").items()}


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
