"""A corpus of files of one kind.

Knows shards, and that files stay as they were. Does not know how to read a file: that is a Format's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.bulk.rows import Rows
from headrace.bulk.source import Shard
from headrace.bulk.sources.columns import IdKind
from headrace.bulk.sources.corpus_file import CorpusFile
from headrace.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a file that is a shard.

    Attributes:
        file: the file.
        name: of the shard.
        num_rows: in it, if known.
        first_row: position of its first row in what `numbered` names; added to a row's position to name the row.
        numbered: what rows are counted in, for those named by position.
        id_kind: what ids of this corpus are; None if there are none to tell.
        start: where it begins, in a unit that is the format's.
        end: where it ends, as in a range; None is the end of the file.
    """

    file: CorpusFile
    name: str
    num_rows: int | None = None
    first_row: int = 0
    numbered: str
    id_kind: IdKind | None = None
    start: int = 0
    end: int | None = None

    def position(self, row: int) -> str:
        """What names a row of the shard to people, and to all where there is no column of ids."""
        return f"{self.numbered}:{self.first_row + row}"


class Format(Protocol):
    """A kind of file."""

    def stretches(self, files: Sequence[CorpusFile]) -> list[Stretch]:
        """How the files are cut into shards, which depends on what is in them alone.

        Raises:
            SourceError: they cannot be read, or lack a column.
        """
        ...

    def read(self, stretch: Stretch, first: int) -> Iterator[Rows]:
        """The rows of one from position `first` on: see Source.read.

        Raises:
            SourceError: it cannot be read on.
        """
        ...


class FileSource:
    """Files as a source."""

    def __init__(self, name: str, files: Sequence[CorpusFile], kind: Format) -> None:
        """Take them together.

        Args:
            name: what the user calls them.
            files: the files, in order.
            kind: how to read them.
        """
        self._name = name
        self._files = files
        self._format = kind
        self._shards: list[tuple[Shard, Stretch]] = []

    @property
    def name(self) -> str:
        """See Source.name."""
        return self._name

    def shards(self) -> Sequence[Shard]:
        """See Source.shards."""
        return [shard for shard, _ in self._known()]

    def read(self, shard: int, first: int) -> Iterator[Rows]:
        """See Source.read.

        Raises:
            SourceError: its file is another one than when the shards were told, too.
        """
        known, stretch = self._known()[shard]
        if _state(stretch, stretch.file.state()) != known.state:
            raise SourceError(
                f"{stretch.file.path} has changed since the job began: restore it, or start a job of another name"
            )
        yield from self._format.read(stretch, first)

    def _known(self) -> list[tuple[Shard, Stretch]]:
        if not self._shards:
            stretches = self._format.stretches(self._files)
            states = {file.path: file.state() for file in self._files}
            self._shards = [
                (Shard(each.name, _state(each, states[each.file.path]), each.num_rows), each) for each in stretches
            ]
        return self._shards


def _state(stretch: Stretch, of_file: str) -> str:
    whole = stretch.start == 0 and stretch.end is None
    return of_file if whole else f"{of_file}-{stretch.start}-{'' if stretch.end is None else stretch.end}"
