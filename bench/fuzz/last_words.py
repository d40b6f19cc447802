"""The input that a process reads now, where another process finds it if the reader dies of it.

It knows a mapped file: nothing is written by the process that dies.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = 1 << 17
_LENGTH = struct.Struct("<I")


class LastWords:
    """The file, mapped."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped = mapped

    def say(self, data: bytes) -> None:
        """This is read now."""
        known = data[: _SIZE - _LENGTH.size]
        self._mapped[: _LENGTH.size] = _LENGTH.pack(len(known))
        self._mapped[_LENGTH.size : _LENGTH.size + len(known)] = known


@contextmanager
def last_words(path: Path) -> Iterator[LastWords]:
    """Write to a file while the context lasts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w+b") as file:
        file.truncate(_SIZE)
        with mmap.mmap(file.fileno(), _SIZE) as mapped:
            yield LastWords(mapped)


def of_the_dead(path: Path) -> bytes | None:
    """What was read last; None where nothing was."""
    try:
        said = path.read_bytes()
    except OSError:
        return None
    (length,) = _LENGTH.unpack_from(said) if len(said) >= _LENGTH.size else (0,)
    return said[_LENGTH.size : _LENGTH.size + length] or None
