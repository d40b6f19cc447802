"""From what a user types to the corpus that is meant.

Knows how each kind of source is spelt. Does not know how any is read.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bulk.source import Source
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.file_source import FileSource
from headrace.bulk.sources.matches import FileKind, find
from headrace.bulk.sources.saved_dataset import saved_dataset
from headrace.errors import InputError, SourceError

if TYPE_CHECKING:
    from headrace.bulk.sources.file_source import Format

_QUERY = "duckdb"


def open_source(
    what: str,
    *,
    column: str = "text",
    id_column: str | None = None,
    kind: str | None = None,
    delimiter: str | None = None,
    shards: int = 1,
) -> Source:
    """Open a corpus.

    Args:
        what: a file, a folder or a glob of Parquet, JSON lines, CSV or Arrow files; a folder that Hugging Face's
            `save_to_disk` has written; or `duckdb:` and a query.
        column: the one with the texts; `a.b` is field b of a nested column a.
        id_column: the one with the ids, integers or strings; None names rows by file and position.
        kind: of files whose names do not tell: parquet, jsonl, csv or arrow; or duckdb, and `what` is a query as it is.
        delimiter: between the fields of CSV; else a tab in .tsv files, a comma in others.
        shards: of a query: how many processes may read parts of it. Files are cut by themselves.

    Raises:
        InputError: an argument is wrong, or a library is missing.
        SourceError: there is no such corpus.
    """
    if not what.strip():
        raise InputError("the source is empty: name a file, a folder or a glob, or write duckdb:SELECT ...")
    columns = Columns(column, id_column)
    if kind == _QUERY or (kind is None and what.startswith(f"{_QUERY}:")):
        return _query(what.removeprefix(f"{_QUERY}:"), columns, shards)
    if "://" in what:
        raise SourceError(
            f"{_shown(what)} is no path: copy it here, or let DuckDB read it (duckdb:FROM read_parquet('s3://...'))"
        )
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter is {delimiter!r}: one character is needed, and no quote or line end")
    return _files(what, columns, kind, delimiter)


def _query(query: str, columns: Columns, shards: int) -> Source:
    try:
        from headrace.bulk.sources.duckdb import DuckdbSource  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise _not_installed(error, "duckdb") from error
    return DuckdbSource(query, columns, shards=shards)


def _files(what: str, columns: Columns, kind: str | None, delimiter: str | None) -> Source:
    folder = Path(what).expanduser()
    saved = saved_dataset(folder) if kind in {None, "arrow"} and folder.is_dir() else None
    try:
        if saved is not None:
            return FileSource(str(Path(what).expanduser().absolute()), saved, _format("arrow", columns, delimiter))
        found = find(what, kind)
        return FileSource(str(Path(what).expanduser().absolute()), found.files, _format(found.kind, columns, delimiter))
    except ModuleNotFoundError as error:
        raise _not_installed(error, "bulk") from error


def _format(kind: FileKind, columns: Columns, delimiter: str | None) -> "Format":
    # pyarrow is an extra, and slow to import.
    if kind == "parquet":
        from headrace.bulk.sources.parquet import Parquet  # noqa: PLC0415

        return Parquet(columns)
    if kind == "jsonl":
        from headrace.bulk.sources.jsonl import Jsonl  # noqa: PLC0415

        return Jsonl(columns)
    if kind == "csv":
        from headrace.bulk.sources.csv import Csv  # noqa: PLC0415

        return Csv(columns, delimiter=delimiter)
    from headrace.bulk.sources.arrow import Arrow  # noqa: PLC0415

    return Arrow(columns)


def _shown(what: str) -> str:
    """As it was typed, without a password."""
    return re.sub(r"(://[^/@:]*):.*@", r"\1:…@", what)


def _not_installed(error: ModuleNotFoundError, extra: str) -> InputError:
    return InputError(f"{error.name} is not installed: pip install 'headrace[{extra}]'")
