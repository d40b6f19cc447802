"""The windows of a shard: read from where the job has to go on, and cut as they were the first time.

Knows how rows become windows (cut.py has the limits), and skips those that are done. Does not know what is done with
one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.bulk.cut import Cut, Span, Spans
from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.sink import part_name
from headrace.bulk.source import Source


@dataclass(slots=True, eq=False)
class Window:
    """Consecutive rows of a shard.

    Attributes:
        shard: its number.
        index: number of the window in the shard.
        row: position of its first row in the shard.
        ids: one a row.
        texts: one a row, or why there is none.
    """

    shard: int
    index: int
    row: int
    ids: list[Id] = field(default_factory=list)
    texts: list[str | Problem] = field(default_factory=list)

    @property
    def name(self) -> str:
        """That of its part."""
        return part_name(self.shard, self.index)

    @property
    def span(self) -> Span:
        """Where it lies."""
        return Span(self.index, self.index + 1, self.row, self.row + len(self.ids))


def undone_windows(source: Source, shard: int, cut: Cut, done: Spans) -> Iterator[Window]:
    """The windows of a shard that are not done, in order.

    Raises:
        SourceError: the shard cannot be read.
    """
    index = row = 0
    while True:
        if (span := done.end_of(index)) is not None:
            index, row = span.end_window, span.end_row
        for window in cut_rows(source.read(shard, row), shard, cut, index, row):
            index, row = window.index, window.row
            if done.end_of(index) is not None:
                break  # reading it was in vain, but only then was its place known
            yield window
            index, row = window.span.end_window, window.span.end_row
        else:
            return


def cut_rows(found: Iterable[Rows], shard: int, cut: Cut, index: int, row: int) -> Iterator[Window]:
    """Cut rows into windows; the first has this index and begins at position `row`."""
    window, characters = Window(shard, index, row), 0
    for rows in found:
        for row_id, text in zip(rows.ids, rows.texts, strict=True):
            window.ids.append(row_id)
            window.texts.append(text)
            characters += len(text) if isinstance(text, str) else 0
            if len(window.ids) >= cut.rows or characters >= cut.characters:
                yield window
                window, characters = Window(shard, window.span.end_window, window.span.end_row), 0
    if window.ids:
        yield window
