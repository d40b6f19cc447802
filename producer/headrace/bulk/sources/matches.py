"""The files that a user means by a path, a folder or a glob, and their kind.

Knows names of files and of kinds. Does not know what is in files.
"""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.errors import InputError, SourceError

FileKind: TypeAlias = Literal["parquet", "jsonl", "csv", "arrow"]

KINDS: tuple[FileKind, ...] = get_args(FileKind)

_KIND_OF: dict[str, FileKind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSED = frozenset({".gz", ".zst"})


@dataclass(frozen=True, slots=True)
class Matches:
    """The files, in the order of their names, and what all of them are."""

    files: tuple[CorpusFile, ...]
    kind: FileKind


def find(what: str, kind: str | None = None) -> Matches:
    """Find what the user means.

    Args:
        what: a file, a folder, or a glob in which ** is any folders.
        kind: of the files, where their names do not tell, or to choose in a folder of several.

    Raises:
        InputError: there is no such kind.
        SourceError: nothing matches, or files of more than one kind do.
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"source kind is {kind!r}: choose one of {', '.join(KINDS)}, or duckdb for a query")
    path = Path(what).expanduser()
    if path.is_dir():
        return _of_one_kind(what, _in_folder(path), kind, is_chosen=False)
    if path.is_file():
        return _of_one_kind(what, [CorpusFile(path, _name(path, path.parent))], kind, is_chosen=True)
    if glob.has_magic(what):
        return _of_one_kind(what, _in_glob(path), kind, is_chosen=True)
    found = f"{what} is no file" if path.exists() else f"there is no {what}"
    raise SourceError(f"{found}: name a file, a folder or a glob that this machine can read")


def kind_of(path: Path) -> FileKind | None:
    """What the name of a file says that it is."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
        kind = _KIND_OF.get(suffixes[-1]) if suffixes else None
        return kind if kind in {"jsonl", "csv"} else None
    return _KIND_OF.get(suffixes[-1]) if suffixes else None


def _in_folder(folder: Path) -> list[CorpusFile]:
    return [CorpusFile(path, _name(path, folder)) for path in _walk(folder)]


def _walk(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise SourceError(f"{error.filename} cannot be read ({error.strerror}): see its permissions") from error

    for here, folders, names in os.walk(folder, onerror=fail):
        # What programs leave beside their output: _SUCCESS, _temporary, .part-0.crc. And our own output.
        folders[:] = [name for name in folders if not name.startswith((".", "_")) and not _is_sink(Path(here, name))]
        yield from (path for name in names if not name.startswith((".", "_")) and (path := Path(here, name)).is_file())


def _is_sink(folder: Path) -> bool:
    """Whether vectors of a job are in it, which are no part of the corpus that it is in; named itself it is one."""
    return (folder / "_headrace").is_dir()


def _in_glob(pattern: Path) -> list[CorpusFile]:
    fixed = Path(*_before_magic(pattern.parts))
    paths = (Path(found) for found in glob.iglob(str(pattern), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [CorpusFile(path, _name(path, fixed)) for path in paths if path.is_file()]


def _before_magic(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def _name(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"the name {name!a} is not UTF-8: rename the file, rows are named by it") from error
    return name


def _of_one_kind(what: str, files: list[CorpusFile], kind: str | None, *, is_chosen: bool) -> Matches:
    """See that they are of one kind.

    Args:
        what: what the user gave.
        files: all that are there.
        kind: what the user says that they are, if so.
        is_chosen: the user means every one of them, not just those that are of a kind.
    """
    kinds = {file: kind_of(file.path) for file in files}
    if kind is not None and not is_chosen:
        files = [file for file in files if kinds[file] == kind] or [file for file in files if kinds[file] is None]
    elif kind is None:
        if not is_chosen:
            files = [file for file in files if kinds[file] is not None]
        kind = _one(what, [kinds[file] for file in files], files)
    if not files:
        raise SourceError(f"{what} has no file of kind {kind}: it is {', '.join(KINDS)} that can be read")
    return Matches(tuple(sorted(files, key=lambda file: file.name)), cast("FileKind", kind))


def _one(what: str, kinds: list[FileKind | None], files: list[CorpusFile]) -> FileKind | None:
    if not files:
        raise SourceError(f"{what} matches no file that could be read: those are named {', '.join(_KIND_OF)}")
    if None in kinds:
        unnamed = files[kinds.index(None)].path
        raise SourceError(f"the name of {unnamed} does not tell its kind: say it with --source-kind {'|'.join(KINDS)}")
    counted = Counter(kind for kind in kinds if kind is not None)
    if len(counted) > 1:
        found = " and ".join(f"{number} of kind {kind}" for kind, number in sorted(counted.items()))
        raise SourceError(f"{what} matches files of several kinds, {found}: choose with --source-kind, or with a glob")
    return next(iter(counted))
