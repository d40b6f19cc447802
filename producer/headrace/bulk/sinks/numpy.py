"""A folder with one NumPy array of all vectors, and the ids in the same order.

Knows the files of windows that it is joined from, and how, in constant memory. Does not know jobs.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from headrace_contracts.messages import numpy_dtype, row_elements
from numpy.typing import NDArray

from headrace.bulk.card import Card
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Stored
from headrace.bulk.sinks.folder import Folder, IdKind, of_kind
from headrace.bulk.sinks.part_files import Extent, PartFiles, Rows
from headrace.bulk.whole_file import refusal, whole_file, with_no_error_remove
from headrace.errors import SinkError

# What NumPy and zipfile raise of a file that is damaged.
_DAMAGED = (BadZipFile, ValueError, KeyError, EOFError, NotImplementedError)


class NumpySink:
    """Vectors in one array, for np.load(…, mmap_mode="r").

        vectors.npy                [n, elements], in the order of the corpus
        ids.npy or ids.jsonl       int64 [n], or a JSON string a line
        texts.jsonl                a JSON string a line, where the job keeps texts
        card.json                  what the vectors are
        _headrace/                 the same by window, for jobs to come, which makes the folder twice as large

    The files but the last are there when the job is done. Without them, and then with all of them, is how another job
    replaces them.
    """

    def __init__(self, path: Path) -> None:
        self._folder = Folder(path)
        self._parts = self._folder.place / "numpy.parts"  # a full stop, which no job's folder has
        self._files = PartFiles(self._parts, ".npz", _extent)
        self._card: Card | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return f"numpy:{self._folder.path.resolve()}"

    @property
    def is_one_corpus(self) -> bool:
        """It is: parts of another one are dropped in the end."""
        return True

    @property
    def place(self) -> Path:
        """A folder for what the job keeps beside the vectors."""
        return self._folder.place

    def open(self, card: Card, *, replace: bool) -> None:
        """Make the folder, or see that what is there goes with `card`; see Sink.open."""
        self._folder.open(card, replace=replace, found=self._card_of_files, empty=self._empty)
        try:
            self._parts.mkdir(exist_ok=True)
        except OSError as error:
            raise refusal(self._parts, error) from error
        self._card = card

    def write(self, part: Part) -> None:
        """Keep a part, in place of the file of an earlier try; see Sink.write."""
        if not part.ids:
            self._files.drop(part.name)
            return
        self._folder.check(self._opened())
        arrays = {
            "vectors": np.ascontiguousarray(part.vectors),
            "hashes": np.frombuffer(b"".join(part.hashes), np.uint8).reshape(-1, 16),
        }
        if self._folder.id_kind(part.ids, self._kind_of_a_file) == "int64":
            arrays["ids"] = np.array(part.ids, np.int64)
        else:
            arrays |= _packed("ids", [str(one) for one in part.ids])
        if part.texts is not None:
            arrays |= _packed("texts", part.texts)
        self._folder.unsettle()
        with whole_file(self._files.path(part.name), self.place) as file:
            np.savez(file, allow_pickle=False, **arrays)

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What is there of these ids; a file that is damaged is as if it were not there. See Sink.lookup."""
        kind = self._folder.id_kind((), self._kind_of_a_file)
        if kind is None:
            return {}
        return self._files.lookup(of_kind(ids, kind), _rows, is_settled=self._folder.is_settled)

    def count(self) -> int:
        """Rows of all windows; see Sink.count."""
        return self._files.count()

    def finish(self, parts: Collection[str]) -> None:
        """Join the windows, drop others and what crashes have left; see Sink.finish."""
        kind = self._folder.id_kind((), self._kind_of_a_file) or "int64"
        with self._folder.alone():
            self._folder.check(self._opened())
            self._files.remove(but=parts)
            self._folder.sweep()
            self._folder.settle()
            self._write_joined(kind)
            with whole_file(self._folder.path / "card.json", self.place) as file:
                file.write(self._opened().to_json().encode())

    def close(self) -> None:
        """Nothing is held."""

    def _write_joined(self, kind: IdKind) -> None:
        folder, texts = self._folder.path, self._folder.path / "texts.jsonl"
        used, unused = ("ids.npy", "ids.jsonl") if kind == "int64" else ("ids.jsonl", "ids.npy")
        # They get their names in the reverse order, so that vectors are there once all are.
        with (
            whole_file(folder / "vectors.npy", self.place) as vectors,
            whole_file(folder / used, self.place) as ids,
            whole_file(texts, self.place) as lines,
        ):
            self._join(kind, vectors, ids, lines)
            has_texts = lines.tell() > 0
            for each in (vectors, ids, lines):
                each.flush()
            with_no_error_remove(folder / "vectors.npy")
        if not has_texts:
            with_no_error_remove(texts)
        with_no_error_remove(folder / unused)

    def _join(self, kind: IdKind, vectors: BinaryIO, ids: BinaryIO, texts: BinaryIO) -> None:
        card, num_rows, joined = self._opened(), self._files.count(), 0
        _header(vectors, numpy_dtype(card.dtype), (num_rows, row_elements(card.dtype, card.dim)))
        if kind == "int64":
            _header(ids, np.dtype(np.int64), (num_rows,))
        for path in self._files.paths():
            with _opened(path) as part:
                if part is None:
                    raise SinkError(
                        f"{path} is damaged: `headrace job verify` finds out what is missing, and has it made"
                    )
                vectors.write(part["vectors"].tobytes())
                ids.write(part["ids"].tobytes() if kind == "int64" else _lines(_unpacked(part, "ids")))
                if "texts_ends" in part:
                    texts.write(_lines(_unpacked(part, "texts")))
                joined += len(part["vectors"])
        if joined != num_rows:
            raise SinkError(f"{self._folder.path} was written to while it was finished: run the same command again")

    def _opened(self) -> Card:
        if self._card is None:
            raise SinkError(f"{self._folder.path}: open it with a card first")
        return self._card

    def _empty(self) -> None:
        for name in ("vectors.npy", "ids.npy", "ids.jsonl", "texts.jsonl", "card.json"):
            with_no_error_remove(self._folder.path / name)
        if self._parts.exists():
            self._files.remove()

    def _card_of_files(self) -> Card | None:
        written, vectors = self._folder.path / "card.json", self._folder.path / "vectors.npy"
        try:
            return Card.from_json(written.read_bytes())
        except FileNotFoundError:
            if vectors.exists():
                text = f"{vectors} is there, and no card.json that says what it is: choose a folder of its own"
                raise SinkError(text) from None
            return None
        except OSError as error:
            raise refusal(written, error) from error

    def _kind_of_a_file(self) -> IdKind | None:
        for path in self._files.paths():
            with _opened(path) as part:
                if part is not None:
                    return "int64" if "ids" in part else "string"
        return None


def _header(file: BinaryIO, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)


def _packed(name: str, strings: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Strings as bytes one behind the other, and where each ends: NumPy's own are as long as the longest."""
    encoded = [string.encode() for string in strings]
    return {
        f"{name}_utf8": np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}_ends": np.cumsum([len(each) for each in encoded], dtype=np.int64),
    }


def _unpacked(part: Any, name: str) -> list[str]:
    joined, ends = part[f"{name}_utf8"].tobytes(), part[f"{name}_ends"].tolist()
    return [joined[first:end].decode() for first, end in zip([0, *ends], ends, strict=False)]


def _ids(part: Any) -> list[Id]:
    return part["ids"].tolist() if "ids" in part else [*_unpacked(part, "ids")]


def _lines(strings: Sequence[str]) -> bytes:
    return "".join(f"{json.dumps(string, ensure_ascii=False)}\n" for string in strings).encode()


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The arrays of a file by name; None if it is damaged, or gone meanwhile.

    Raises:
        SinkError: it cannot be read, for a reason that passes.
    """
    try:
        with path.open("rb") as file:
            try:
                arrays = np.load(file, allow_pickle=False)
                # All of it, so that its checksums are known to be right.
                part = {name: arrays[name] for name in arrays.files}
            except _DAMAGED:
                part = None
    except FileNotFoundError:
        part = None
    except OSError as error:
        raise refusal(path, error) from error
    yield part


def _extent(path: Path) -> Extent | None:
    with _opened(path) as part:
        ids: list[Any] | None = None if part is None else _ids(part)
        return None if ids is None else Extent(len(ids), min(ids, default=None), max(ids, default=None))


def _rows(path: Path, wanted: Collection[Id]) -> Rows:
    """Those rows of a file that have one of these ids."""
    with _opened(path) as part:
        if part is None:
            return
        places = [place for place, one in enumerate(_ids(part)) if one in wanted]
        ids = _ids(part)
        hashes, vectors = part["hashes"][places], part["vectors"][places]
        yield {ids[place]: Stored(hashes[n].tobytes(), vectors[n]) for n, place in enumerate(places)}
