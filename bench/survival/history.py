"""What callers wanted and what they got, line by line, written so that a caller that is killed loses no line.

It knows the records and how they are kept. Who writes them is in caller.py, what they prove in checker.py. Times are
those of the machine's monotonic clock, one for all its processes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeAlias

import msgspec

RESULT, CANCELLED, NEVER = "result", "cancelled", "never"
"""Ends of calls that are no exceptions: with vectors, given up by its caller, and none although it was waited for."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked", tag_field="what", omit_defaults=True):
    """A call is about to be made.

    Attributes:
        call: Its name, which no other call of a run has.
        at_s: When.
        texts: Which ones of the plan's.
        timeout_s: That the client is given.
        patience_s: After which its caller gives it up; None waits.
        tenant: In whose name; None is nobody's.
        priority: Its class.
    """

    call: str
    at_s: float
    texts: tuple[int, ...]
    timeout_s: float
    patience_s: float | None = None
    tenant: str | None = None
    priority: str = "online"


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="what", omit_defaults=True):
    """A call has ended, in whatever way.

    Attributes:
        call: Which.
        at_s: When.
        end: RESULT, CANCELLED, NEVER, or the name of what it raised: that of headrace's own, of others with their
            module's before it.
        digests: Of the vectors, in the order of the texts; empty for a text that has none.
        errors: Why a text has none, as "code: text", by place in the call.
        code: Of an error that has one.
        text: Of an error.
    """

    call: str
    at_s: float
    end: str
    digests: tuple[str, ...] = ()
    errors: Mapping[int, str] = {}
    code: str | None = None
    text: str = ""


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped", tag_field="what"):
    """The caller has waited for all that it asked, and asks no more."""

    at_s: float


Record: TypeAlias = Asked | Ended | Stopped

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


class Unreadable(Exception):
    """A line is no record, and no process could have left it so by being killed."""


class Writer:
    """Writes records to a file of its own."""

    def __init__(self, file: int) -> None:
        """Use `written`."""
        self._file = file

    def write(self, record: Record) -> None:
        """Keep a record: from here on it outlives this process."""
        # Unbuffered: what the kernel has taken is there, however the process ends.
        left = memoryview(_encoder.encode(record) + b"\n")
        while left:
            left = left[os.write(self._file, left) :]

    def stopped(self) -> None:
        """Keep that nothing follows."""
        self.write(Stopped(at_s=monotonic()))


@contextmanager
def written(file: Path) -> Iterator[Writer]:
    """Write a history to a file that is not there yet.

    Raises:
        FileExistsError: It is: two processes write no one history.
    """
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    try:
        yield Writer(number)
    finally:
        os.close(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that one process has written.

    Attributes:
        caller: Its name.
        asked: What it wanted, in order.
        ended: What became of it, in order.
        stopped_s: When it had waited for all; None if it was ended before.
    """

    caller: str
    asked: Sequence[Asked]
    ended: Sequence[Ended]
    stopped_s: float | None = None


def read(file: Path) -> History:
    """Read a history; its name is the file's without its suffix.

    Raises:
        Unreadable: A line is no record. The last one may be half of one: its process was killed while it wrote.
        OSError: There is no such file.
    """
    *lines, rest = file.read_bytes().split(b"\n")
    records = [_record(file, number, line) for number, line in enumerate(lines, 1)]
    if rest:
        # It may be whole but for its end of line; what nobody was told to be written is not there.
        records = [*records, *_maybe(rest)]
    stops = [record.at_s for record in records if isinstance(record, Stopped)]
    return History(
        caller=file.stem,
        asked=[record for record in records if isinstance(record, Asked)],
        ended=[record for record in records if isinstance(record, Ended)],
        stopped_s=stops[0] if stops else None,
    )


def _record(file: Path, number: int, line: bytes) -> Record:
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"{file}:{number}: {error}: {line[:80]!r}") from None


def _maybe(line: bytes) -> Sequence[Record]:
    try:
        return [_decoder.decode(line)]
    except msgspec.MsgspecError:
        return []
