"""Tells the process that started this one that the worker is ready.

Knows one convention, that of s6 and dinit: write a newline to a file descriptor and close it. A parent that reads the
other end sees the newline when the worker is ready, and the end of the file if it died before.
"""

import os


def check(fd: int | None) -> None:
    """See that there is something to write to, before anything is loaded.

    Raises:
        ValueError: the file descriptor is not open.
    """
    if fd is None:
        return
    try:
        os.fstat(fd)
    except OSError:
        raise ValueError(
            f"ready_fd is {fd}, which is not open: give the one that the supervisor opened, or none"
        ) from None


def ready(fd: int | None) -> None:
    """Say so on `fd`, if there is one."""
    if fd is not None:
        os.write(fd, b"\n")
        os.close(fd)
