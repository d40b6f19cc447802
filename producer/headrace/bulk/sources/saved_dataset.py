"""Folders that Hugging Face's `save_to_disk` writes.

Knows which of their files hold rows, and in which order. Does not know Arrow.
"""

import json
from pathlib import Path
from typing import Any

from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.errors import SourceError

_STATE = "state.json"
_SPLITS = "dataset_dict.json"


def saved_dataset(folder: Path) -> list[CorpusFile] | None:
    """The files of rows, in order; None if the folder is no such data set.

    Raises:
        SourceError: it has several splits, is a view of other rows, or is not whole.
    """
    if (folder / _SPLITS).is_file():
        return saved_dataset(folder / _only_split(folder))
    if not (folder / _STATE).is_file():
        return None
    state = _read(folder / _STATE)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise SourceError(f"{folder} is a selection of other rows: call flatten_indices() and save it again")
    return _files(folder, state["_data_files"]) if isinstance(state.get("_data_files"), list) else None


def _only_split(folder: Path) -> str:
    splits = _read(folder / _SPLITS).get("splits")
    if not isinstance(splits, list) or not splits:
        raise SourceError(f"{folder / _SPLITS} names no splits: save the data set anew")
    if len(splits) > 1:
        raise SourceError(
            f"{folder} has the splits {', '.join(map(str, splits))}: choose one, as {folder / str(splits[0])}"
        )
    return str(splits[0])


def _files(folder: Path, listed: list[Any]) -> list[CorpusFile]:
    files: list[CorpusFile] = []
    for each in listed:
        name = each.get("filename") if isinstance(each, dict) else None
        if not isinstance(name, str) or Path(name).name != name or not (folder / name).is_file():
            raise SourceError(f"{folder / _STATE} names {name!r}, which is no file in that folder: copy all of it")
        files.append(CorpusFile(folder / name, name))
    return files


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be read ({error}): save the data set anew") from error
    return found if isinstance(found, dict) else {}
