"""Tells the process that started this one that the worker is ready.

Knows one convention, that of s6 and dinit: write a newline to a file descriptor and close it. A parent that reads the
other end sees the newline when the worker is ready, and the end of the file if it died before.
"""

import os


def ready(fd: int | None) -> None:
    """Say so on `fd`, if there is one."""
    if fd is not None:
        os.write(fd, b"\n")
        os.close(fd)
