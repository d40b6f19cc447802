"""Where `headrace embed` and `headrace score` read texts from, and where vectors are written to.

Knows .txt, .jsonl, .npy and .parquet. Does not know how vectors are made.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import typer

from headrace.embeddings import Embeddings

_INPUTS = (".txt", ".jsonl")
_OUTPUTS = (".npy", ".parquet")


@dataclass(frozen=True, slots=True)
class Source:
    """Texts, and whether they came from a file."""

    texts: list[str]
    is_file: bool


def read(arguments: Sequence[str], column: str) -> Source:
    """The texts that the arguments stand for: themselves, the lines of a file, or of standard input for `-`.

    Raises:
        typer.BadParameter: a file that is not there, or a line of it that holds no text.
    """
    if len(arguments) == 1 and arguments[0] == "-":
        return Source([line.rstrip("\n") for line in sys.stdin], is_file=True)
    if len(arguments) == 1 and arguments[0].endswith(_INPUTS) and (" " not in arguments[0] or _is_path(arguments[0])):
        path = Path(arguments[0])
        try:
            lines = path.read_text("utf-8").splitlines()
        except OSError as error:
            raise typer.BadParameter(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise typer.BadParameter(f"{path}: not UTF-8 at byte {error.start}: save it as UTF-8 text") from None
        return Source(lines if path.suffix == ".txt" else list(_fields(path, lines, column)), is_file=True)
    for argument in arguments:
        if _is_path(argument):
            raise typer.BadParameter(
                f"{argument} names a file or directory: give one {' or '.join(_INPUTS)} file, or pipe texts to -"
            )
    return Source(list(arguments), is_file=False)


def _is_path(argument: str) -> bool:
    try:
        # The path of an empty text is the current directory.
        return argument != "" and Path(argument).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def _fields(path: Path, lines: list[str], column: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)[column]
        except ValueError:
            raise typer.BadParameter(f"{path}:{number}: not JSON") from None
        except (KeyError, TypeError):
            raise typer.BadParameter(f"{path}:{number}: no field {column!r}: name the text's with --column") from None
        if not isinstance(text, str):
            raise typer.BadParameter(f"{path}:{number}: {column!r} is {text!r:.40}, not a string")
        yield text


def check_output(path: Path) -> None:
    """Find out before the work whether its result can be written.

    Raises:
        typer.BadParameter: it cannot.
    """
    if path.suffix not in _OUTPUTS:
        raise typer.BadParameter(f"{path}: name a file that ends in {' or '.join(_OUTPUTS)}", param_hint="--output")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"{path}: there is no such directory", param_hint="--output")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise typer.BadParameter("pip install 'headrace[bulk]' to write Parquet", param_hint="--output")


def write(path: Path, texts: list[str], parts: list[Embeddings]) -> None:
    """Write all vectors: .npy holds the array [n, dim], .parquet also the texts and the reason where there is none."""
    vectors = np.concatenate([np.asarray(part) for part in parts])
    if path.suffix == ".npy":
        np.save(path, vectors)
        return
    import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    errors = _errors(parts)
    flat = pa.array(vectors.reshape(-1))
    missing = pa.array([index in errors for index in range(len(texts))], pa.bool_())
    table = pa.table(
        {
            "text": texts,
            "embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1], mask=missing),
            "error": pa.array([errors.get(index) for index in range(len(texts))], pa.string()),
        }
    )
    pq.write_table(table, path)


def print_lines(texts: Sequence[str], vectors: Embeddings) -> None:
    """One JSON object a text: its vector, or the reason why there is none."""
    for index, text in enumerate(texts):
        line: dict[str, object] = {"text": text}
        if index in vectors.errors:
            error = vectors.errors[index]
            line["error"] = f"{error.code}: {error.text}"
        else:
            row = vectors[index].tolist()
            line["embedding"] = [shown(value) for value in row] if vectors.dtype.kind == "f" else row
        typer.echo(json.dumps(line, ensure_ascii=False))


def shown(number: float) -> float:
    """The number for JSON: seven digits are all that a float32 holds."""
    return float(f"{number:.7g}")


def _errors(parts: list[Embeddings]) -> dict[int, str]:
    firsts = np.cumsum([0, *map(len, parts)])
    return {
        int(first) + index: f"{error.code}: {error.text}"
        for first, part in zip(firsts, parts, strict=False)
        for index, error in part.errors.items()
    }
