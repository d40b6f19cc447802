"""The sink that a user names.

Knows how sinks are written down on a command line. Does not know what they do; each is imported when it is asked for,
for what it needs may not be installed.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from headrace.bulk.sink import Sink
from headrace.errors import InputError

SinkKind: TypeAlias = Literal["parquet", "numpy", "lance", "qdrant", "postgres"]

_SPELLINGS = (
    "parquet:FOLDER, numpy:FOLDER, lance:FOLDER#TABLE, qdrant:FOLDER-OR-URL#COLLECTION, postgresql://…#TABLE, or a "
    "folder whose name ends in .parquet, .npy or .lance"
)
_SUFFIXES: dict[str, SinkKind] = {".parquet": "parquet", ".npy": "numpy", ".lance": "lance"}
# Each kind's extra, and what of it is the first to be missing.
_EXTRAS = {"parquet": "bulk", "numpy": "bulk", "lance": "lancedb", "qdrant": "qdrant", "postgres": "postgres"}
_POSTGRES = re.compile(r"postgres(ql)?://")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]+):(.*)", re.DOTALL)


def open_sink(what: str, *, kind: SinkKind | None = None) -> Sink:
    """The sink of this spelling; it is not opened yet.

    Args:
        what: `parquet:DIR`, `numpy:DIR`, `lance:DIR#table`, `qdrant:PLACE#collection`, `postgresql://…#table`; a plain
            folder tells by its suffix.
        kind: of a plain folder, URL or place whose spelling does not tell.

    Raises:
        InputError: it is no sink, or what it needs is not installed.
    """
    if not what.strip() or "\0" in what:
        raise InputError(f"sink {what!r} names nothing: write {_SPELLINGS}")
    told, rest = _kind_and_rest(what)
    if kind is not None and told not in (None, kind):
        raise InputError(f"sink {_shown(what)} is of kind {told}, not {kind}: leave one of the two away")
    match kind or told:
        case "parquet":
            return _made("parquet", "ParquetSink", _folder(rest, what))
        case "numpy":
            return _made("numpy", "NumpySink", _folder(rest, what))
        case "lance":
            return _made("lance", "LanceSink", *_table_in_folder(rest, what))
        case "qdrant":
            return _made("qdrant", "QdrantSink", *_split(rest, what, "qdrant:http://localhost:6333#articles"))
        case "postgres":
            return _made("postgres", "PostgresSink", *_split(rest, what, "postgresql://host/database#articles"))
        case _:
            raise InputError(f"sink {_shown(what)} does not tell what it is: write {_SPELLINGS}")


def _kind_and_rest(what: str) -> tuple[SinkKind | None, str]:
    if _POSTGRES.match(what):
        return "postgres", what
    found = _SCHEME.fullmatch(what)
    if found and found[1] in get_args(SinkKind):
        kind: SinkKind = next(each for each in get_args(SinkKind) if each == found[1])
        return kind, found[2]
    suffix = Path(what.partition("#")[0]).suffix.lower()
    if found and (found[2].startswith("//") or suffix not in _SUFFIXES) and found[1] not in ("http", "https"):
        raise InputError(f"sink {_shown(what)}: there is no kind {found[1]!r}: write {_SPELLINGS}")
    return _SUFFIXES.get(suffix), what


def _folder(path: str, what: str) -> Path:
    if "#" in path:
        raise InputError(f"sink {_shown(what)}: a folder has no table: leave out all from the # on")
    return _path(path, what)


def _table_in_folder(path: str, what: str) -> tuple[Path, str]:
    folder, _, table = path.partition("#")
    if table:
        return _path(folder, what), table
    if (whole := _path(folder, what)).suffix == ".lance":  # as LanceDB itself calls the folder of a table
        return whole.parent, whole.stem
    raise InputError(f"sink {_shown(what)} names no table: write it behind a #, as in lance:vectors#articles")


def _path(path: str, what: str) -> Path:
    if not path.strip():
        raise InputError(f"sink {_shown(what)} names no folder: write it behind the colon")
    if "://" in path:
        raise InputError(
            f"sink {_shown(what)}: only folders of this machine can be written to: mount it, and name that"
        )
    return Path(path).expanduser()


def _split(rest: str, what: str, example: str) -> tuple[str, str]:
    place, _, name = rest.rpartition("#")
    if not place or not name:
        raise InputError(f"sink {_shown(what)} lacks a name behind a #: write it as in {example}")
    if example.startswith("postgresql") and not _POSTGRES.match(place):
        raise InputError(f"sink {_shown(what)} is no URL of a database: write it as in {example}")
    return place, name


def _shown(what: str) -> str:
    """As it was typed, without a password."""
    return re.sub(r"(://[^/@:]*):.*@", r"\1:…@", what)


def _made(kind: SinkKind, name: str, *arguments: Any) -> Sink:
    try:
        module = import_module(f"headrace.bulk.sinks.{kind}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headrace"):
            raise
        text = f"a sink of kind {kind} needs {error.name}: pip install 'headrace[{_EXTRAS[kind]}]'"
        raise InputError(text) from error
    sink: Sink = getattr(module, name)(*arguments)
    return sink
