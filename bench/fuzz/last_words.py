"""The input that a process reads now, where another process finds it if the reader dies of it, or hangs and is ended.

It knows a mapped file, of which nothing must be written by a process that dies, and a watchdog that is a thread of its
own, so that code outside of Python is seen to hang, too.
"""

import faulthandler
import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = 1 << 17
_LENGTH = struct.Struct("<I")


class LastWords:
    """The file, mapped, and the watchdog."""

    def __init__(self, mapped: mmap.mmap, timeout_s: float) -> None:
        self._mapped = mapped
        self._timeout_s = timeout_s
        self._fed_s = float("-inf")

    def say(self, data: bytes) -> None:
        """This is read now."""
        # Not each time: the watchdog is a new thread then.
        if (now_s := time.monotonic()) - self._fed_s > self._timeout_s / 10:
            self._fed_s = now_s
            faulthandler.dump_traceback_later(self._timeout_s, exit=True)
        known = data[: _SIZE - _LENGTH.size]
        self._mapped[: _LENGTH.size] = _LENGTH.pack(len(known))
        self._mapped[_LENGTH.size : _LENGTH.size + len(known)] = known


@contextmanager
def last_words(path: Path, timeout_s: float) -> Iterator[LastWords]:
    """Write to a file while the context lasts, and end this process if it says nothing new for so long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w+b") as file:
        file.truncate(_SIZE)
        with mmap.mmap(file.fileno(), _SIZE) as mapped:
            try:
                yield LastWords(mapped, timeout_s)
            finally:
                faulthandler.cancel_dump_traceback_later()


def of_the_dead(path: Path) -> bytes | None:
    """What was read last; None where nothing was."""
    try:
        said = path.read_bytes()
    except OSError:
        return None
    (length,) = _LENGTH.unpack_from(said) if len(said) >= _LENGTH.size else (0,)
    return said[_LENGTH.size : _LENGTH.size + length] or None
