"""A file of a corpus.

Knows its name and how to tell whether it has changed. Does not know what is in it.
"""

import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from headrace.errors import SourceError

# Of its head and its tail, each: what hashing reads of a file, whatever its size.
_HASHED = 1 << 16


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file.

    Attributes:
        path: where it is here.
        name: its path from what the user gave, the same on every machine that has a copy.
    """

    path: Path
    name: str

    def state(self) -> str:
        """Its size and a hash of its head and tail: the same for copies, and cheap for files of any size.

        A change in the middle that leaves size, head and tail as they are is not seen.

        Raises:
            SourceError: it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                hashed = blake2b(file.read(_HASHED), digest_size=12)
                file.seek(max(_HASHED, size - _HASHED))
                hashed.update(file.read(_HASHED))
        except OSError as error:
            raise unreadable(self, error) from error
        return f"{size}-{hashed.hexdigest()}"


def unreadable(file: CorpusFile, error: Exception, where: str = "") -> SourceError:
    """What to raise when a file cannot be read (on).

    Args:
        file: the file.
        error: what was raised.
        where: the place in it, for people, such as ` after line 7`.
    """
    said = str(error) or type(error).__name__
    return SourceError(f"{file.path} cannot be read{where} ({said}): see that it is whole, or copy it anew")
