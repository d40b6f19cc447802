"""A folder of Parquet files, one for each window of a job.

Knows the columns and how they are laid out. Any reader of Parquet reads the folder as one table: pyarrow, DuckDB,
Polars, Spark, Hugging Face datasets. Does not know jobs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from headrace_contracts.messages import row_elements

from headrace.bulk.card import Card
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Stored
from headrace.bulk.sinks.folder import Folder, IdKind, of_kind
from headrace.bulk.sinks.part_files import Extent, PartFiles, Rows
from headrace.bulk.whole_file import refusal, whole_file
from headrace.errors import SinkError

# Rows that a reader who wants one id must look at; 12 MB of vectors of 384 floats.
_GROUP_ROWS = 8192
_CARD = b"headrace.card"


class ParquetSink:
    """Vectors in a folder of Parquet files.

        part-<part name>.parquet   columns id (int64 or string), hash (16 bytes), vector (fixed-size list), and text
                                   where the job keeps it; the card under headrace.card in the metadata
        _headrace/                 the card, and what a job keeps

    An id is looked for in those files whose smallest and largest id are around it. That is quick where ids ascend with
    the corpus, as numbers, dates and positions do; and once the job is done, if they are asked for in the order of the
    corpus, as an audit does. Random ids that are new are looked for in all files, window by window: beyond some ten
    million rows of those a database or LanceDB is the better sink to re-index into.
    """

    def __init__(self, path: Path) -> None:
        self._folder = Folder(path)
        self._files = PartFiles(path, ".parquet", _extent)
        self._card: Card | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return f"parquet:{self._folder.path.resolve()}"

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
        self._folder.open(card, replace=replace, found=self._card_of_a_file, empty=self._files.remove)
        self._card = card

    def write(self, part: Part) -> None:
        """Keep a part, in place of the file of an earlier try; see Sink.write."""
        if not part.ids:  # and no kind of id to write down
            self._files.drop(part.name)
            return
        card = self._opened()
        self._folder.check(card)
        kind = self._folder.id_kind(part.ids, self._kind_of_a_file)
        table = _table(part, card, kind)
        self._folder.unsettle()
        with whole_file(self._files.path(part.name), self._folder.place) as file:
            pq.write_table(
                table,
                file,
                row_group_size=_GROUP_ROWS,
                use_dictionary=False,
                write_statistics=["id"],
                write_page_checksum=True,
                compression=_compression(table.schema),
            )

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What is there of these ids; a file that is damaged is as if it were not there. See Sink.lookup."""
        kind = self._folder.id_kind((), self._kind_of_a_file)
        if kind is None:
            return {}
        return self._files.lookup(of_kind(ids, kind), _rows, is_settled=self._folder.is_settled)

    def count(self) -> int:
        """Rows of all files, as their metadata say; see Sink.count."""
        return self._files.count()

    def finish(self, parts: Collection[str]) -> None:
        """Drop the files of other parts, and what crashes have left; see Sink.finish."""
        with self._folder.alone():
            self._folder.check(self._opened())
            self._files.remove(but=parts)
            self._folder.sweep()
            self._folder.settle()

    def close(self) -> None:
        """Nothing is held."""

    def _opened(self) -> Card:
        if self._card is None:
            raise SinkError(f"{self._folder.path}: open it with a card first")
        return self._card

    def _card_of_a_file(self) -> Card | None:
        if strangers := self._files.strangers():
            raise SinkError(
                f"{self._folder.path} holds {strangers[0]}, which is no file of a bulk job: choose a folder of its own"
            )
        written = self._of_a_file(lambda file: (file.schema_arrow.metadata or {}).get(_CARD))
        return None if written is None else Card.from_json(written)

    def _kind_of_a_file(self) -> IdKind | None:
        kind = self._of_a_file(lambda file: file.schema_arrow.field("id").type)
        return None if kind is None else "int64" if kind == pa.int64() else "string"

    def _of_a_file(self, what: Any) -> Any:
        for path in self._files.paths():
            with _opened(path) as file:
                if file is not None:
                    return what(file)
        return None


def _table(part: Part, card: Card, kind: IdKind | None) -> Any:
    flat = pa.array(np.ascontiguousarray(part.vectors).reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(flat, row_elements(card.dtype, card.dim))
    columns = {
        "id": pa.array(part.ids, pa.int64() if kind == "int64" else pa.string()),
        "hash": pa.array(part.hashes, pa.binary(16)),
        "vector": vectors,
    }
    if part.texts is not None:
        columns["text"] = pa.array(part.texts, pa.string())
    return pa.table(columns, metadata={_CARD: card.to_json().encode()})


def _compression(schema: Any) -> dict[str, str]:
    # Floats of vectors do not compress; the narrow integers do, which Parquet holds in 32 bits each.
    element = schema.field("vector").type.value_type
    vector = "none" if pa.types.is_floating(element) else "zstd"
    return {name: "zstd" for name in schema.names if name != "vector"} | {"vector.list.element": vector}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file; None if it is damaged, or gone meanwhile.

    Raises:
        SinkError: it cannot be read, for a reason that passes.
    """
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except (FileNotFoundError, pa.ArrowException):
        yield None
        return
    except OSError as error:
        if error.errno:
            raise refusal(path, error) from error
        yield None  # what pyarrow says of metadata that it cannot make out
        return
    with file:
        yield file


def _extent(path: Path) -> Extent | None:
    with _opened(path) as file:
        if file is None:
            return None
        metadata = file.metadata
        groups = [metadata.row_group(number).column(0).statistics for number in range(metadata.num_row_groups)]
        if not all(group is not None and group.has_min_max for group in groups):
            # Parquet leaves them out for strings that are too long.
            return Extent(metadata.num_rows, None, None)
        smallest, largest = (f([getattr(group, f.__name__) for group in groups], default=None) for f in (min, max))
        return Extent(metadata.num_rows, smallest, largest)


def _rows(path: Path, wanted: Collection[Id]) -> Rows:
    """Those rows of a file that have one of these ids, a row group at a time; what is damaged is passed over."""
    with _opened(path) as file:
        for group in range(file.num_row_groups if file is not None else 0):
            try:
                yield _rows_of_group(file, group, wanted)
            except (OSError, pa.ArrowException):  # a checksum that is wrong is an OSError
                continue


def _rows_of_group(file: Any, group: int, wanted: Collection[Id]) -> dict[Id, Stored]:
    ids = file.read_row_group(group, columns=["id"]).column("id").combine_chunks()
    places = pc.indices_nonzero(pc.is_in(ids, value_set=pa.array(wanted, ids.type)))
    if not len(places):
        return {}
    table = file.read_row_group(group, columns=["hash", "vector"]).take(places).combine_chunks()
    vectors = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    vectors = vectors.reshape(len(places), -1)
    hashes = table.column("hash").to_pylist()
    return {
        one: Stored(hash_, vector)
        for one, hash_, vector in zip(ids.take(places).to_pylist(), hashes, vectors, strict=True)
    }
