"""The files of a sink that has one for each part: which there are, and which of them may hold an id.

Knows their names, and of each the smallest and the largest id. Does not know what is in a file beside that, which the
sink tells.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from headrace.bulk.rows import Id
from headrace.bulk.sink import Stored
from headrace.bulk.whole_file import refusal, sync_folder

Rows: TypeAlias = Iterator[dict[Id, Stored]]
_NAME = re.compile(r"part-(\d{5,}-\d{6,})")


@dataclass(frozen=True, slots=True)
class Extent:
    """What is in a file.

    Attributes:
        rows: how many.
        smallest: id; None if that is not known, so that any may be in it.
        largest: id.
    """

    rows: int
    smallest: Id | None
    largest: Id | None

    def may_hold(self, ids: Sequence[Any]) -> bool:
        """Whether one of these ids may be in it, which are sorted and of one kind."""
        if not self.rows:
            return False
        if self.smallest is None or self.largest is None:
            return True
        place = bisect_left(ids, self.smallest)
        return bool(place < len(ids) and ids[place] <= self.largest)


@dataclass(frozen=True, slots=True)
class _Known:
    written_ns: int
    size: int
    inode: int
    extent: Extent | None


class PartFiles:
    """The files `part-<part name><suffix>` of a folder.

    Each is opened once to learn its extent, and again only when it has been replaced.
    """

    def __init__(self, folder: Path, suffix: str, extent: Callable[[Path], Extent | None]) -> None:
        """Look at nothing yet.

        Args:
            folder: where they are.
            suffix: that their names end with.
            extent: reads a file's; None if it is damaged, which is as if it were not there.
        """
        self._folder = folder
        self._suffix = suffix
        self._extent = extent
        self._known: dict[str, _Known] = {}
        self._last_hit = ""

    def path(self, part: str) -> Path:
        """The file of a part."""
        return self._folder / f"part-{part}{self._suffix}"

    def paths(self) -> list[Path]:
        """All of them, by name.

        Raises:
            SinkError: the folder cannot be read.
        """
        return sorted((Path(entry.path) for entry in self._entries()), key=lambda path: path.name)

    def strangers(self) -> list[str]:
        """Names of files with this suffix that are no part's.

        Raises:
            SinkError: the folder cannot be read.
        """
        return [name for name in self._names() if name.endswith(self._suffix) and self._part(name) is None]

    def lookup(
        self, ids: Collection[Id], rows: Callable[[Path, Collection[Id]], Rows], *, is_settled: bool
    ) -> dict[Id, Stored]:
        """What is there of these ids, which are of one kind; of those in several files what the newest has.

        Args:
            ids: to look for.
            rows: reads those of a file, in one go or in several.
            is_settled: no id is in several files, so they may be looked through in any order; who asks in that of the
                corpus then finds each in the file of the one before, or in the next.

        Raises:
            SinkError: the folder or a file cannot be read.
        """
        missing, found = set(ids), dict[Id, Stored]()
        for path in self._holding(missing, is_settled=is_settled) if missing else ():
            for there in rows(path, missing):
                found.update(there)
                missing -= there.keys()
                if there:
                    self._last_hit = path.name
            if not missing:
                break
        return found

    def count(self) -> int:
        """Rows of all files.

        Raises:
            SinkError: the folder cannot be read.
        """
        self._look()
        return sum(known.extent.rows for known in self._known.values() if known.extent is not None)

    def drop(self, part: str) -> None:
        """Remove the file of a part, if it is there.

        Raises:
            SinkError: it cannot be removed.
        """
        path = self.path(part)
        try:
            if path.exists():
                path.unlink()
                sync_folder(self._folder)
        except OSError as error:
            raise refusal(path, error) from error

    def remove(self, *, but: Collection[str] = ()) -> None:
        """Remove the files of all parts but these.

        Raises:
            SinkError: one cannot be removed.
        """
        kept = frozenset(but)
        gone = [path for path in self.paths() if self._part(path.name) not in kept]
        try:
            for path in gone:
                path.unlink(missing_ok=True)
            if gone:
                sync_folder(self._folder)
        except OSError as error:
            raise refusal(self._folder, error) from error

    def _holding(self, ids: Collection[Any], *, is_settled: bool) -> Iterator[Path]:
        self._look()
        wanted, last_hit = sorted(ids), self._last_hit
        if is_settled:
            ordered = sorted(self._known, key=lambda name: (name < last_hit, name))
        else:
            ordered = sorted(self._known, key=lambda name: (self._known[name].written_ns, name), reverse=True)
        for name in ordered:
            extent = self._known[name].extent
            if extent is not None and extent.may_hold(wanted):
                yield self._folder / name

    def _look(self) -> None:
        known = {}
        for entry in self._entries():
            try:
                status = entry.stat()
            except FileNotFoundError:  # another process finishes the job
                continue
            except OSError as error:
                raise refusal(Path(entry.path), error) from error
            before = self._known.get(entry.name)
            now = status.st_mtime_ns, status.st_size, status.st_ino
            if before is not None and now == (before.written_ns, before.size, before.inode):
                known[entry.name] = before
            else:
                known[entry.name] = _Known(*now, self._extent(Path(entry.path)))
        self._known = known

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                return [entry for entry in entries if self._part(entry.name) is not None]
        except OSError as error:
            raise refusal(self._folder, error) from error

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder))  # noqa: PTH208 - names alone, of what may be 100,000 files
        except OSError as error:
            raise refusal(self._folder, error) from error

    def _part(self, name: str) -> str | None:
        match = _NAME.fullmatch(name.removesuffix(self._suffix)) if name.endswith(self._suffix) else None
        return match[1] if match else None
