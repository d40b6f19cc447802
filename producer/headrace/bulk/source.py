"""What a corpus must be able to do to be read by a bulk job.

Knows the protocol only; sources/ has the implementations. A source is read on a thread, so its methods may block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.bulk.rows import Rows

# Rows that `read` gives at a time, at most.
MAX_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a corpus that is read apart from the others.

    Attributes:
        name: for people, such as a file's path.
        state: another one whenever its rows may have changed, and the same on every machine that sees the same rows.
        num_rows: how many they are, where that is cheap to know.
    """

    name: str
    state: str
    num_rows: int | None = None


class Source(Protocol):
    """A corpus. The same source gives the same shards and rows in the same order, each time and on every machine."""

    @property
    def name(self) -> str:
        """What people call it; without passwords."""
        ...

    def shards(self) -> Sequence[Shard]:
        """Its shards, in a fixed order.

        Raises:
            SourceError: they cannot be told.
        """
        ...

    def read(self, shard: int, first: int) -> Iterator[Rows]:
        """The rows of a shard from position `first` on, at most MAX_ROWS at a time.

        One bad row is a Problem in its place and never ends the rest.

        Raises:
            SourceError: the shard cannot be read on.
        """
        ...
