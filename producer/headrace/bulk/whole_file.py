"""Files that are there whole or not at all, also after a loss of power.

Knows how to write one and what to say when that fails. Does not know what is in it.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.errors import SinkError

# Ends the names of files that are not whole yet; what a crash leaves of them is no file of anybody's.
UNFINISHED = ".unfinished"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ADVICE = {
    errno.EACCES: "give this user the right to it, or name another place",
    errno.EPERM: "give this user the right to it, or name another place",
    errno.EROFS: "name a place that can be written to",
    errno.ENOTDIR: "a part of the path is a file: name a folder, which may be new",
    errno.EEXIST: "it is a file: name a folder, which may be new",
    errno.ENAMETOOLONG: "name a shorter one",
}


@contextmanager
def whole_file(path: Path, workshop: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file in place of the one that is there, if any; without an error it is on the disk after that.

    Args:
        path: what it is called once it is whole.
        workshop: the folder that it is made in, of the same file system; that of `path` if None.

    Raises:
        SinkError: it could not be written; the file that was there is as it was.
    """
    unfinished = (workshop or path.parent) / f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}"
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise refusal(path, error) from error
    finally:
        # Room is needed the most when there was none.
        with_no_error_remove(unfinished)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk.

    Raises:
        OSError: it cannot be done.
    """
    if os.name == "nt":  # which neither opens folders nor needs to
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def with_no_error_remove(path: Path) -> None:
    """Remove a file that nobody needs, if it is there and can be."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def refusal(path: Path, error: OSError) -> SinkError:
    """What to say of a file that could not be written or read, with the name of the reason (ENOSPC, EACCES, …)."""
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    advice = "make room" if error.errno in _FULL else _ADVICE.get(error.errno or 0, "see to that")
    return SinkError(f"{path}: {error.strerror or error} ({name}): {advice}, and the same command goes on from there")
