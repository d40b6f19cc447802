"""What a bulk job writes down beside its vectors: a line for each window that is in the sink, and rows that failed.

Knows the files and what is in them, also after a crash in the middle of a line. Does not know sinks, nor who decides
that a window is done.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from io import FileIO
from pathlib import Path
from typing import Self

from headrace.bulk.file_lock import locked
from headrace.bulk.rows import Id
from headrace.bulk.whole_file import UNFINISHED, refusal, sync_folder, whole_file, with_no_error_remove
from headrace.errors import SinkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A window that is in the sink.

    Attributes:
        window: its number in the shard.
        first: position of its first row in the shard.
        rows: of the corpus.
        written: vectors that are new.
        unchanged: vectors that were in the sink already.
        failed: rows that have none.
        tokens: that the fleet computed.
        ids: checksum of the ids that have a vector (checksums.py).
        vectors: checksum of the vectors.
    """

    window: int
    first: int
    rows: int
    written: int
    unchanged: int
    failed: int
    tokens: int
    ids: str
    vectors: str

    @classmethod
    def from_json(cls, line: bytes) -> Self | None:
        """Read it; None for the half of a line, which is what a crash leaves."""
        try:
            found = json.loads(line)
            return cls(**{field.name: found[field.name] for field in fields(cls)})
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that has no vector.

    Attributes:
        id: its id, or what names it to people.
        shard: number of its shard.
        row: its position in it.
        code: the reason in one word, for programs (rows.Problem).
        text: the reason for people.
    """

    id: Id
    shard: int
    row: int
    code: str
    text: str


class Ledger:
    """The files of one job in a folder.

        job.json                   the job that they are of, as its record was when it began or ended
        windows-<shard>.jsonl      a record a line, in the order of writing; of a window's the last one counts
        errors/<part name>.jsonl   the rows of a window that failed; no file where none did
        errors.jsonl               all of them, once the job is done
        alone.lock                 empty

    Safe for the processes of a job, each of which writes to other shards. Methods block.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._errors = folder / "errors"
        self._job = folder / "job.json"

    @property
    def errors_folder(self) -> Path:
        """Where the rows that failed are, a file a window."""
        return self._errors

    def job(self) -> bytes | None:
        """What was kept of the job; None if nothing was.

        Raises:
            SinkError: it cannot be read.
        """
        try:
            return self._job.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(self._job, error) from error

    def keep_job(self, record: bytes) -> None:
        """Keep the record of the job, in place of what is there.

        Raises:
            SinkError: it could not be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refusal(self._folder, error) from error
        with whole_file(self._job) as file:
            file.write(record)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the other processes of the job out of here for a moment.

        Raises:
            SinkError: the folder cannot be written to.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refusal(self._folder, error) from error
        with locked(self._folder / "alone.lock"):
            yield

    def num_vectors(self) -> int:
        """How many vectors the sink was given, by all records.

        Raises:
            SinkError: a file cannot be read.
        """
        numbers = [path.stem.removeprefix("windows-") for path in self._folder.glob("windows-*.jsonl")]
        shards = [self.records(int(number)).values() for number in numbers if number.isdecimal()]
        return sum(each.written + each.unchanged for records in shards for each in records)

    def append(self, shard: int, record: Record) -> None:
        """Add a window; once this returns it survives a loss of power.

        Raises:
            SinkError: it could not be written.
        """
        path = self._windows(shard)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            with path.open("ab+", buffering=0) as file:
                # The half of a line that a crash has left must not spoil this one.
                line = b"" if _ends_a_line(file) else b"\n"
                _write_all(file, line + _line(asdict(record)))
                os.fsync(file.fileno())
            if is_new:
                sync_folder(self._folder)
        except OSError as error:
            raise refusal(path, error) from error

    def records(self, shard: int) -> dict[int, Record]:
        """The last record of each window of a shard, by window; of none that was only half written.

        Raises:
            SinkError: the file cannot be read.
        """
        path = self._windows(shard)
        try:
            with path.open("rb") as file:
                found = [record for line in file if (record := Record.from_json(line)) is not None]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise refusal(path, error) from error
        return dict(sorted({record.window: record for record in found}.items()))

    def drop(self, shard: int, window: int) -> None:
        """Forget a window: it must be done again.

        Raises:
            SinkError: the file could not be written.
        """
        records = self.records(shard)
        if records.pop(window, None) is not None:
            with whole_file(self._windows(shard)) as file:
                file.writelines(_line(asdict(record)) for record in records.values())

    def write_errors(self, part_name: str, failures: Sequence[Failure]) -> None:
        """Keep the rows of a window that failed, in place of those of an earlier try.

        Raises:
            SinkError: they could not be written.
        """
        path = self._errors / f"{part_name}.jsonl"
        try:
            if not failures:
                if path.exists():
                    path.unlink()
                    sync_folder(self._errors)
                return
            self._errors.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refusal(path, error) from error
        with whole_file(path) as file:
            file.writelines(_line(asdict(failure)) for failure in failures)

    def errors(self) -> Iterator[Failure]:
        """All rows that failed, in the order of the corpus, a window at a time.

        Raises:
            SinkError: a file of theirs cannot be read.
        """
        for path in self._error_files():
            yield from self._errors_of(path)

    def failed_rows(self, part_name: str) -> frozenset[int]:
        """Positions in the shard of the rows of a window that failed.

        Raises:
            SinkError: its file cannot be read.
        """
        return frozenset(failure.row for failure in self._errors_of(self._errors / f"{part_name}.jsonl"))

    def join_errors(self, parts: Collection[str] | None = None) -> Path | None:
        """Put all rows that failed into one file, when the job is done; may be called again.

        Args:
            parts: names of the windows of the corpus: errors of others, which an older one had, are dropped. None keeps
                all.

        Returns:
            The file; None, and no file, if no row failed.

        Raises:
            SinkError: it could not be done.
        """
        joined = self._folder / "errors.jsonl"
        kept = None if parts is None else frozenset(parts)
        try:
            for path in self._error_files():
                if kept is not None and path.stem not in kept:
                    path.unlink(missing_ok=True)
            for left in (*self._folder.glob(f"*{UNFINISHED}"), *self._errors.glob(f"*{UNFINISHED}")):
                with_no_error_remove(left)
            if not self._error_files():
                joined.unlink(missing_ok=True)
                return None
        except OSError as error:
            raise refusal(self._errors, error) from error
        with whole_file(joined) as file:
            file.writelines(_line(asdict(failure)) for failure in self.errors())
        return joined

    def clear(self) -> None:
        """Forget all of it: the job begins anew with another corpus.

        Raises:
            SinkError: a file could not be removed.
        """
        try:
            for path in (
                self._job,
                *self._folder.glob("windows-*.jsonl"),
                *self._error_files(),
                self._folder / "errors.jsonl",
            ):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise refusal(self._folder, error) from error

    def _windows(self, shard: int) -> Path:
        return self._folder / f"windows-{shard:05d}.jsonl"

    def _errors_of(self, path: Path) -> list[Failure]:
        try:
            return [Failure(**json.loads(line)) for line in path.read_bytes().splitlines()]
        except FileNotFoundError:  # no row failed, or the window was done anew without errors
            return []
        except OSError as error:
            raise refusal(path, error) from error
        except (ValueError, TypeError) as error:
            text = f"{path} cannot be read ({error!r}): remove it, and `headrace job verify` writes it anew"
            raise SinkError(text) from error

    def _error_files(self) -> list[Path]:
        return sorted(self._errors.glob("*.jsonl"), key=lambda path: path.name)


def _line(fields_of: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(fields_of, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only hold escaped
        return json.dumps(fields_of).encode() + b"\n"


def _ends_a_line(file: FileIO) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _write_all(file: FileIO, data: bytes) -> None:
    # A disk that is nearly full takes a part of it, and says so only when asked for the rest.
    while data:
        data = data[file.write(data) :]
