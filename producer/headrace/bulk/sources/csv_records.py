"""The records of a CSV file, whose quoted fields may hold line ends.

Knows where a record ends, and where to go on after one that is broken. Does not know what fields mean.
"""

import csv
from collections import deque
from collections.abc import Iterator

from headrace.bulk.rows import Problem
from headrace.bulk.sources.text_lines import LineTooLong, TextLines
from headrace.bulk.sources.values import MAX_BYTES

# Lines of a broken record that are looked at again, each as if a record began there. Were they more, a file of quotes
# that are never closed would have each line read as often as there are lines.
_LOOKED_AT_AGAIN = 100


class CsvRecords:
    """The records: the fields of each as str, bytes that are no UTF-8 as surrogates; or why it cannot be read.

    Attributes:
        number: of the line that the record which was given last begins at.
    """

    def __init__(self, lines: TextLines, delimiter: str, *, limit: int = MAX_BYTES) -> None:
        """Read them.

        Args:
            lines: the file, from its beginning.
            delimiter: one character.
            limit: characters of a record.
        """
        self.number = 0
        self._lines = lines
        self._again: deque[str] = deque()
        self._record: list[str] = []
        self._length = 0
        # The limit is the whole process's, for programs that read lines of any length; here they are bounded.
        csv.field_size_limit(max(csv.field_size_limit(), limit))
        self._limit = limit
        self._reader = csv.reader(_Feed(self), delimiter=delimiter, strict=True)

    def __iter__(self) -> Iterator[list[str] | Problem]:
        return self

    def __next__(self) -> list[str] | Problem:
        while True:
            self.number = number = self._lines.number + 1 - len(self._again)
            self._record.clear()
            self._length = 0
            try:
                fields = next(self._reader)
            except csv.Error as error:
                self._go_back()
                return Problem("unreadable", f"line {number} is not CSV: {error}")
            except LineTooLong as error:
                self._go_back()
                return Problem("unreadable", str(error))
            if fields:
                return fields

    def line(self) -> str:
        """The next line.

        Raises:
            StopIteration: there is none.
            LineTooLong: it is no line to read.
            csv.Error: the record that it belongs to is longer than one may be.
        """
        line = self._again.popleft() if self._again else next(self._lines).decode(errors="surrogateescape")
        self._record.append(line)
        self._length += len(line)
        if self._length > self._limit:
            raise csv.Error(f"the record is longer than {self._limit} characters: is a quote not closed?")
        return line

    def _go_back(self) -> None:
        """Go on at the second line of the broken record: a quote too many must not take the rows after it."""
        if len(self._record) <= _LOOKED_AT_AGAIN:
            self._again.extendleft(reversed(self._record[1:]))


class _Feed:
    """Lines for the reader; an iterator that may go on after it has raised, as a generator may not."""

    def __init__(self, records: CsvRecords) -> None:
        self._records = records

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._records.line()
