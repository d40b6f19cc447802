"""Arrow's own files, and folders that Hugging Face's `save_to_disk` writes.

Knows the two layouts of Arrow IPC, with and without a footer. Does not know values: that is arrow_values.py.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa

from headrace.bulk.rows import Rows
from headrace.bulk.sources.arrow_columns import ArrowColumns, one_id_kind
from headrace.bulk.sources.arrow_values import batch_rows, check
from headrace.bulk.sources.columns import Columns
from headrace.bulk.sources.corpus_file import CorpusFile, unreadable
from headrace.bulk.sources.file_source import Stretch

_WITH_FOOTER = b"ARROW1"


class Arrow:
    """Arrow IPC files. They are mapped into memory: a batch of any size takes no memory but the kernel's cache."""

    def __init__(self, columns: Columns) -> None:
        """Read these columns.

        Args:
            columns: their names.
        """
        self._columns = columns

    def stretches(self, files: Sequence[CorpusFile]) -> list[Stretch]:
        """See Format.stretches."""
        kinds = []
        for file in files:
            with _opened(file) as opened:
                kinds.append((ArrowColumns.find(self._columns, opened.schema, str(file.path)).id_kind, str(file.path)))
        kind = one_id_kind(kinds)
        return [
            Stretch(file=file, name=file.name, num_rows=_count(file), numbered=file.name, id_kind=kind)
            for file in files
        ]

    def read(self, stretch: Stretch, first: int) -> Iterator[Rows]:
        """See Format.read."""
        at = 0
        with _opened(stretch.file) as opened:
            columns = ArrowColumns.find(self._columns, opened.schema, str(stretch.file.path))
            for batch in opened.batches:
                if at + len(batch) > first:
                    _check(batch, columns)
                    skipped = max(0, first - at)
                    rest = batch.slice(skipped)
                    yield from batch_rows(rest, columns, at + skipped, stretch.position, stretch.id_kind)
                at += len(batch)


@dataclass(frozen=True, slots=True)
class _Opened:
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def _opened(file: CorpusFile) -> Iterator[_Opened]:
    try:
        with ExitStack() as closing:
            if file.path.stat().st_size == 0:
                raise pa.ArrowInvalid("it is empty, without so much as a schema")
            mapped = closing.enter_context(pa.memory_map(str(file.path)))
            if mapped.read(len(_WITH_FOOTER)) == _WITH_FOOTER:
                indexed = closing.enter_context(pa.ipc.open_file(mapped))
                numbers = range(indexed.num_record_batches)
                yield _Opened(indexed.schema, (indexed.get_batch(number) for number in numbers))
            else:
                mapped.seek(0)
                reader = closing.enter_context(pa.ipc.open_stream(mapped))
                yield _Opened(reader.schema, iter(reader))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise unreadable(file, error) from error


def _count(file: CorpusFile) -> int:
    # Of what is mapped, only the batches' heads are read.
    with _opened(file) as opened:
        return sum(len(batch) for batch in opened.batches)


def _check(batch: pa.RecordBatch, columns: ArrowColumns) -> None:
    for place in {columns.text[0], *(columns.id or ())[:1]}:
        batch.column(place).validate()
    for array in (columns.texts(batch), columns.ids(batch)):
        if array is not None:
            check(array)
