"""Parquet.

Knows row groups, by which files are cut and rows are found. Does not know values: that is arrow_values.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.bulk.rows import Rows
from headrace.bulk.source import MAX_ROWS
from headrace.bulk.sources.arrow_columns import ArrowColumns, one_id_kind
from headrace.bulk.sources.arrow_values import batch_rows
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.corpus_file import CorpusFile, unreadable
from headrace.bulk.sources.file_source import Stretch

# Of a shard, before compression: files with more are cut between row groups, so that several processes may read them.
SHARD_BYTES = 1 << 30

# Of the rows that are decoded at a time, by the mean of their row group.
_BATCH_BYTES = 32 << 20

# Of a column that is read at a time, before it is decompressed; else it would be all of a row group's.
_BUFFER_BYTES = 1 << 20


class Parquet:
    """Parquet files."""

    def __init__(self, columns: Columns, *, shard_bytes: int = SHARD_BYTES) -> None:
        """Read these columns.

        Args:
            columns: their names.
            shard_bytes: of all columns before compression; a file with more is cut between its row groups.
        """
        self._columns = columns
        self._shard_bytes = shard_bytes

    def stretches(self, files: Sequence[CorpusFile]) -> list[Stretch]:
        """See Format.stretches."""
        found: list[Stretch] = []
        for file in files:
            with _opened(file) as opened:
                kind = ArrowColumns.find(self._columns, opened.schema_arrow, str(file.path)).id_kind
                found += [replace(each, id_kind=kind) for each in self._cut(file, opened.metadata)]
        kind = one_id_kind((each.id_kind, str(each.file.path)) for each in found)
        return [replace(each, id_kind=kind) for each in found]

    def read(self, stretch: Stretch, first: int) -> Iterator[Rows]:
        """See Format.read."""
        names = [name for name in (self._columns.text, self._columns.id) if name is not None]
        with _opened(stretch.file) as opened:
            metadata = opened.metadata
            end = metadata.num_row_groups if stretch.end is None else stretch.end
            at = 0
            for number in range(stretch.start, end):
                group = metadata.row_group(number)
                if at + group.num_rows > first:
                    batches = opened.iter_batches(
                        _batch_rows(group), row_groups=[number], columns=names, use_threads=False
                    )
                    yield from self._from(batches, stretch, at, first)
                at += group.num_rows

    def _from(self, batches: Iterator[pa.RecordBatch], stretch: Stretch, at: int, first: int) -> Iterator[Rows]:
        """The rows of a row group, whose first is at `at`, from position `first` on."""
        for batch in batches:
            skipped = min(len(batch), max(0, first - at))
            columns = ArrowColumns.find(self._columns, batch.schema, str(stretch.file.path))
            yield from batch_rows(batch.slice(skipped), columns, at + skipped, stretch.position, stretch.id_kind)
            at += len(batch)

    def _cut(self, file: CorpusFile, metadata: pq.FileMetaData) -> list[Stretch]:
        cuts = [0]
        size = 0
        for group in range(metadata.num_row_groups):
            if size and size + metadata.row_group(group).total_byte_size > self._shard_bytes:
                cuts.append(group)
                size = 0
            size += metadata.row_group(group).total_byte_size
        if len(cuts) == 1:
            return [Stretch(file=file, name=file.name, num_rows=metadata.num_rows, numbered=file.name)]
        stretches: list[Stretch] = []
        row = 0
        for number, (start, end) in enumerate(zip(cuts, [*cuts[1:], metadata.num_row_groups], strict=True)):
            num_rows = sum(metadata.row_group(group).num_rows for group in range(start, end))
            stretches.append(
                Stretch(
                    file=file,
                    name=f"{file.name}#{number}",
                    num_rows=num_rows,
                    first_row=row,
                    numbered=file.name,
                    start=start,
                    end=end,
                )
            )
            row += num_rows
        return stretches


@contextmanager
def _opened(file: CorpusFile) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(str(file.path), pre_buffer=False, buffer_size=_BUFFER_BYTES) as opened:
            yield opened
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise unreadable(file, error) from error


def _batch_rows(group: pq.RowGroupMetaData) -> int:
    """How many rows of a row group to decode at a time."""
    # Not of the columns that are read alone: pyarrow ends the process when it is asked for one that is damaged.
    num_rows: int = group.num_rows
    size: int = group.total_byte_size
    return max(1, min(MAX_ROWS, _BATCH_BYTES * num_rows // max(1, size)))
