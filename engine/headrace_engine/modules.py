"""The chain of modules that sentence-transformers saves in modules.json.

It knows which modules there are, their order and their directories. It does not read what is in them.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from headrace_engine.document import read_json
from headrace_engine.errors import CheckpointError, UnsupportedModel

_CHAINS = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """The modules of one checkpoint.

    Attributes:
        transformer: The directory of the encoder, its weights and its tokenizer.
        pooling: The directory of the pooling configuration; None where there is no modules.json.
        normalize: Whether the model ends by scaling its vectors to length 1.
    """

    transformer: Path
    pooling: Path | None
    normalize: bool

    @classmethod
    def read(cls, path: Path) -> "Modules":
        """Read modules.json, or take the bare encoder where there is none.

        Raises:
            CheckpointError: The file is malformed.
            UnsupportedModel: The chain is none that the engine can run.
        """
        file = path / "modules.json"
        if not file.exists():
            return cls(transformer=path, pooling=None, normalize=False)
        entries = read_json(file)
        if not isinstance(entries, list) or not all(_is_module(entry) for entry in entries):
            message = f"{file}: expected a list of objects with type and path: download the checkpoint again"
            raise CheckpointError(message)
        # The package path before the class name differs between versions of sentence-transformers.
        chain = tuple(entry["type"].rpartition(".")[2] for entry in entries)
        if chain not in _CHAINS:
            raise UnsupportedModel(_refusal(file, chain))
        transformer, pooling = (path / _inside(file, entry["path"]) for entry in entries[:2])
        return cls(transformer=transformer, pooling=pooling, normalize="Normalize" in chain)


def _is_module(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("type"), str) and isinstance(entry.get("path"), str)


def _inside(file: Path, directory: str) -> PurePosixPath:
    relative = PurePosixPath(directory)
    if relative.is_absolute() or ".." in relative.parts:
        message = f"{file}: path={directory!r} leaves the checkpoint: do not trust it; take it from its author"
        raise CheckpointError(message)
    return relative


def _refusal(file: Path, chain: tuple[str, ...]) -> str:
    supported = " or ".join(" → ".join(known) for known in _CHAINS)
    dense = "Dense modules are not supported yet; " if "Dense" in chain else ""
    return f"{file}: {dense}the chain {' → '.join(chain) or '(empty)'} cannot be run: use a model with {supported}"
