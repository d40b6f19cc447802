"""Models as ONNX, kept from run to run, and made again when the weights are others.

It knows where they are kept and what they depend on. It does not know how one is made: export_onnx.py and fuse_onnx.py
do.
"""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from environments import python_of

_HERE = Path(__file__).parent

Kind = Literal["tokens", "pooled", "scores"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A script that writes a directory, the last of its arguments.

    Attributes:
        script: The script.
        environment: The name of the environment that it runs in.
    """

    script: Path
    environment: str

    @property
    def sources(self) -> tuple[Path, Path]:
        """What decides what it writes, besides its arguments."""
        return self.script, _HERE / "requirements" / f"{self.environment}.txt"

    def run(self, *arguments: str | Path) -> None:
        """Run it.

        Raises:
            FileNotFoundError: The environment is not installed.
            RuntimeError: It failed; the last line of its stderr says why.
        """
        command = (python_of(self.environment), self.script, *arguments)
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
            raise RuntimeError(f"{self.script.name} {arguments[0]} failed: {last}") from error


_EXPORT = Tool(_HERE / "export_onnx.py", "sentence-transformers")
_FUSE = Tool(_HERE / "fuse_onnx.py", "fastembed")


def exported(kind: Kind, model: Path, work: Path) -> Path:
    """A directory with model.onnx, config.json, tokenizer.json and what belongs to it.

    Args:
        kind: What comes out of the graph: rows of tokens, normalised vectors, or logits.
        model: Directory of the model.
        work: Where to keep it.

    Raises:
        FileNotFoundError: The environment of sentence-transformers, which exports, is not installed.
        RuntimeError: The export failed.
    """
    source = _hash((*_EXPORT.sources, *sorted(path for path in model.rglob("*") if path.is_file())))
    return _kept(work / "onnx" / kind, source, _EXPORT, kind, model)


def fused(kind: Kind, model: Path, work: Path) -> Path:
    """The same for ONNX Runtime: attention and the like are one node each, and fused.json counts them.

    Raises:
        FileNotFoundError: The environment of sentence-transformers or of fastembed is not installed.
        RuntimeError: The export or the fusion failed.
    """
    export = exported(kind, model, work)
    return _kept(work / "onnx" / f"{kind}-fused", _hash((*_FUSE.sources, export / "made-of")), _FUSE, export)


def _kept(directory: Path, source: str, tool: Tool, *arguments: str | Path) -> Path:
    """The directory, made by the tool unless it was made of the same source before."""
    directory.mkdir(parents=True, exist_ok=True)
    stamp = directory / "made-of"
    with _locked(directory.with_suffix(".lock")):
        if not stamp.exists() or stamp.read_text("utf-8") != source:
            shutil.rmtree(directory)
            directory.mkdir()
            tool.run(*arguments, directory)
            stamp.write_text(source, "utf-8")
    return directory


def _hash(files: Iterable[Path]) -> str:
    """Of all that decides what is made."""
    parts = hashlib.sha256()
    for file in files:
        parts.update(file.name.encode())
        parts.update(file.read_bytes())
    return parts.hexdigest()


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One at a time: contenders of two precisions may start together, and want the same file."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
