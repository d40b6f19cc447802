"""Whose vectors a folder holds, where a folder is one corpus: another one's must not be dropped by mistake.

Knows one small file. Does not know sinks or jobs.
"""

from pathlib import Path

from headrace.bulk.whole_file import refusal, whole_file
from headrace.errors import SinkRefused

_FILE = "source.txt"


def take_folder(folder: Path, source: str, sink: str, *, replace: bool) -> None:
    """Note that the vectors of a folder are, from now on, those of a corpus.

    Args:
        folder: for what is kept beside the vectors.
        source: the corpus, as people call it.
        sink: the same of the folder.
        replace: whether it may take the place of another one.

    Raises:
        SinkRefused: it holds the vectors of another corpus, and `replace` is false.
        SinkError: the folder cannot be read or written to.
    """
    path = folder / _FILE
    try:
        there = path.read_text("utf-8", "surrogateescape") if path.exists() else source
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal(path, error) from error
    if there != source and not replace:
        raise SinkRefused(
            f"{sink} holds the vectors of {there}, which would be dropped: a folder is one corpus. Name another one, "
            f"or --replace to have those of {source} in their place"
        )
    with whole_file(path) as file:
        file.write(source.encode("utf-8", "surrogateescape"))
