"""A bulk job's progress as JSON lines, for logs.

Knows how a line reads. Does not know when one is due (show.py).
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TextIO

from headrace.bulk.progress import Snapshot


def _now() -> datetime:
    return datetime.now(UTC)


class Lines:
    """Writes a line a snapshot: its fields, and the time of day in `time`."""

    # Logs are read later: what changed within some seconds is of no use there.
    every_s = 5.0

    def __init__(self, out: TextIO, clock: Callable[[], datetime] = _now) -> None:
        self._out = out
        self._clock = clock

    def draw(self, snapshot: Snapshot) -> None:
        """Write one line.

        Raises:
            OSError: nobody reads it, or there is no room for it.
        """
        fields = {name: round(value, 3) if isinstance(value, float) else value for name, value in _fields(snapshot)}
        self._out.write(json.dumps({"time": self._clock().isoformat(timespec="milliseconds"), **fields}) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is left to do."""


def _fields(snapshot: Snapshot) -> list[tuple[str, object]]:
    return list(asdict(snapshot).items())
