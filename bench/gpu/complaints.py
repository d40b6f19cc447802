"""What goes wrong: errors in a line, with all of their traceback on standard error, and warnings in the engine's log.

It does not know what any of them is about.
"""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_LINE = 300


def in_a_line(error: BaseException) -> str:
    """Print an error to standard error, and give the last line of its traceback, cut where it is very long."""
    traceback.print_exception(error)
    line = traceback.format_exception_only(error)[-1].strip()
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@contextmanager
def heard() -> Iterator[list[str]]:
    """The warnings of the engine, as they come, while the context lasts."""
    ear, logger = _Ear(), logging.getLogger("headrace_engine")
    logger.addHandler(ear)
    try:
        yield ear.heard
    finally:
        logger.removeHandler(ear)
