"""What is written down of a window: how many rows did what, and checksums by which an audit knows them again. Pure."""

from collections.abc import Sequence

from headrace.bulk import checksums
from headrace.bulk.jobs.record import Tally
from headrace.bulk.ledger import Failure, Record
from headrace.bulk.sink import Part
from headrace.bulk.window import Window


def record_of(window: Window, part: Part, failures: Sequence[Failure], num_tokens: int) -> Record:
    """The record of a window that is in the sink."""
    return Record(
        window=window.index,
        first=window.row,
        rows=len(window.ids),
        written=int(part.fresh.sum()),
        unchanged=int((~part.fresh).sum()),
        failed=len(failures),
        tokens=num_tokens,
        ids=checksums.of_ids(part.ids),
        vectors=checksums.of_vectors(part.vectors),
    )


def tally_of(record: Record) -> Tally:
    """What was counted for a window."""
    return Tally(
        rows=record.rows,
        written=record.written,
        unchanged=record.unchanged,
        failed=record.failed,
        tokens=record.tokens,
    )
