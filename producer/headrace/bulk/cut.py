"""How a shard is cut into windows, and which of them are done.

Pure. A window is what a bulk job tokenises, sends, writes and remembers as one: some consecutive rows. The cut depends
on the rows and the two limits alone, so that whoever goes on with a job finds the same windows. Does not know texts.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The limits of a window: it ends with the row that reaches one of them.

    Attributes:
        rows: of a window, at most.
        characters: of its texts; the last text may exceed it.
    """

    rows: int = 8192
    characters: int = 16_000_000


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Consecutive windows of a shard, and their rows; both ends are as in a range."""

    window: int
    end_window: int
    row: int
    end_row: int


@dataclass(frozen=True, slots=True)
class Spans:
    """The windows of a shard that are done."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Self:
        """Merge what touches; of what is there twice, once."""
        merged: list[Span] = []
        for span in sorted(spans):
            if merged and span.window <= merged[-1].end_window:
                if span.end_window > merged[-1].end_window:
                    last = merged.pop()
                    merged.append(Span(last.window, span.end_window, last.row, span.end_row))
            else:
                merged.append(span)
        return cls(tuple(merged))

    def plus(self, span: Span) -> Self:
        """With one more."""
        return self.of((*self.spans, span))

    def minus(self, span: Span) -> Self:
        """Without one window that turned out not to be done."""
        kept: list[Span] = []
        for each in self.spans:
            if each.end_window <= span.window or each.window >= span.end_window:
                kept.append(each)
                continue
            if each.window < span.window:
                kept.append(Span(each.window, span.window, each.row, span.row))
            if each.end_window > span.end_window:
                kept.append(Span(span.end_window, each.end_window, span.end_row, each.end_row))
        return self.of(kept)

    def end_of(self, window: int) -> Span | None:
        """The span that a window lies in; None if it is not done."""
        place = bisect_right(self.spans, window, key=lambda span: span.window) - 1
        return self.spans[place] if place >= 0 and window < self.spans[place].end_window else None
