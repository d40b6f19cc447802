"""The chain of modules that sentence-transformers saves in modules.json.

It knows which modules there are, their order and their directories. It does not read what is in them, nor know which
chains make sense: `headrace_engine.heads` does.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from headrace_engine.document import read_json
from headrace_engine.errors import CheckpointError, UnsupportedModel


@dataclass(frozen=True, slots=True)
class Module:
    """One module after the encoder.

    Attributes:
        kind: Its class name, such as "Pooling".
        package: The Python package of the class, such as "sentence_transformers.models"; it differs between versions.
        directory: Where its files are.
    """

    kind: str
    package: str
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """The modules of one checkpoint.

    Attributes:
        file: modules.json, whether it is there or not.
        transformer: The directory of the encoder, its weights and its tokenizer.
        steps: What follows the encoder, in order; None where there is no modules.json.
    """

    file: Path
    transformer: Path
    steps: tuple[Module, ...] | None

    @classmethod
    def read(cls, path: Path) -> "Modules":
        """Read modules.json, or take the bare encoder where there is none.

        Raises:
            CheckpointError: The file is malformed.
            UnsupportedModel: The chain does not begin with an encoder.
        """
        file = path / "modules.json"
        if not file.exists():
            return cls(file=file, transformer=path, steps=None)
        entries = read_json(file)
        if not isinstance(entries, list) or not all(_is_module(entry) for entry in entries):
            message = f"{file}: expected a list of objects with type and path: download the checkpoint again"
            raise CheckpointError(message)
        modules = [_module(file, entry) for entry in entries]
        if not modules or modules[0].kind != "Transformer":
            found = modules[0].kind if modules else "nothing"
            message = f"{file}: the chain begins with {found}: use a model whose chain begins with Transformer"
            raise UnsupportedModel(message)
        return cls(file=file, transformer=modules[0].directory, steps=tuple(modules[1:]))

    @property
    def chain(self) -> str:
        """The whole chain, for messages."""
        return " → ".join(["Transformer", *(step.kind for step in self.steps or ())])


def _is_module(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("type"), str) and isinstance(entry.get("path"), str)


def _module(file: Path, entry: dict[str, str]) -> Module:
    package, _, kind = entry["type"].rpartition(".")
    directory = PurePosixPath(entry["path"])
    if directory.is_absolute() or ".." in directory.parts:
        message = f"{file}: path={entry['path']!r} leaves the checkpoint: do not trust it; take it from its author"
        raise CheckpointError(message)
    return Module(kind, package, file.parent / directory)
