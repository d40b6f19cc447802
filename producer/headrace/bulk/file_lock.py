"""A lock that processes of one machine, or of several with one file system, share: a file.

Knows fcntl. Does not know what is kept apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.bulk.whole_file import refusal


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of here while the context lasts.

    Where a file system knows no locks there is no harm but to processes that are here in the same moment.

    Args:
        path: the lock; its folder must be there.

    Raises:
        SinkError: it cannot be opened.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        yield
        return
    try:
        lock = path.open("wb")
    except OSError as error:
        raise refusal(path, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        yield
