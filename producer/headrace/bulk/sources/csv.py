"""CSV: a header, then one record a row.

Knows headers and fields. Does not know where a record ends: that is csv_records.py.
"""

from collections.abc import Iterator, Sequence

from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.sources.columns import Columns, doubled, missing
from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.bulk.sources.csv_records import CsvRecords
from headrace.bulk.sources.file_source import Stretch
from headrace.bulk.sources.row_builder import in_rows, row
from headrace.bulk.sources.text_lines import TextLines
from headrace.errors import SourceError


class Csv:
    """CSV files with a header. All ids are strings; blank lines are no rows; an empty text is a text."""

    def __init__(self, columns: Columns, *, delimiter: str | None = None) -> None:
        """Read these columns.

        Args:
            columns: names in the header.
            delimiter: between fields; a tab in files named .tsv and a comma in others, unless given.
        """
        self._columns = columns
        self._delimiter = delimiter

    def stretches(self, files: Sequence[CorpusFile]) -> list[Stretch]:
        """See Format.stretches."""
        for file in files:
            with TextLines(file) as lines:
                self._header(self._records(lines, file), file)
        return [Stretch(file=file, name=file.name, numbered=file.name, id_kind="str") for file in files]

    def read(self, stretch: Stretch, first: int) -> Iterator[Rows]:
        """See Format.read."""
        with TextLines(stretch.file) as lines:
            records = self._records(lines, stretch.file)
            header = self._header(records, stretch.file)
            found = enumerate(records)
            rows = (self._row(stretch, at, each, header, records.number) for at, each in found if at >= first)
            yield from in_rows(rows, first)

    def _records(self, lines: TextLines, file: CorpusFile) -> CsvRecords:
        return CsvRecords(lines, self._delimiter or ("\t" if ".tsv" in file.path.suffixes else ","))

    def _header(self, records: CsvRecords, file: CorpusFile) -> list[str]:
        """Read it; [] if the file is empty."""
        header = next(records, [])
        if isinstance(header, Problem):
            raise SourceError(f"{file.path} has no header that can be read: {header.text}")
        for name in (self._columns.text, self._columns.id):
            if header and name is not None:
                self._check(header, name, file)
        return header

    def _check(self, header: list[str], name: str, file: CorpusFile) -> None:
        if header.count(name) > 1:
            raise doubled(self._columns, name, str(file.path))
        if name not in header:
            error = missing(self._columns, name, str(file.path), [ascii(each)[1:-1] for each in header])
            if len(header) == 1 and any(mark in header[0] for mark in ",;\t|"):
                error = SourceError(f"{error}, or say what stands between fields (--delimiter)")
            raise error

    def _row(
        self, stretch: Stretch, at: int, record: list[str] | Problem, header: list[str], number: int
    ) -> tuple[Id, str | Problem]:
        position = stretch.position(at)
        if isinstance(record, list) and len(record) != len(header):
            record = Problem("unreadable", f"line {number} has {_fields(len(record))}, the header {len(header)}")
        if isinstance(record, Problem):
            return position, record
        named = position if self._columns.id is None else _value(record[header.index(self._columns.id)])
        return row(position, named, _value(record[header.index(self._columns.text)]), stretch.id_kind)


def _fields(count: int) -> str:
    return f"{count} field{'' if count == 1 else 's'}"


def _value(field: str) -> str | bytes:
    # What is no UTF-8 came as surrogates, which UTF-8 cannot hold.
    if field.isascii():
        return field
    try:
        field.encode()
    except UnicodeEncodeError:
        return field.encode(errors="surrogateescape")
    return field
