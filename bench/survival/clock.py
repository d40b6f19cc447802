"""A wall clock that runs apart from the machine's, for the processes that are given it, and is set while they run.

It knows libfaketime, which goes between a program and its C library: so Python has this clock, and what is written in
Go, such as nats-server, has not. Clocks that only go forward, by which programs wait, stay as they are.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


class NoLibrary(Exception):
    """There is no libfaketime: `pip install libfaketime` where there is Linux."""


class Clock:
    """One clock, shared by all processes that have its environment.

    Attributes:
        environment: Variables for a process that is to go by it.
        ahead_s: Of the machine's, in seconds; less than 0 is behind.
    """

    def __init__(self, file: Path) -> None:
        """Make one that is right.

        Args:
            file: That says how far ahead it is; nobody else has it.

        Raises:
            NoLibrary: It cannot be made here.
        """
        self._file = file.resolve()
        self.ahead_s = 0.0
        self.set(0)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",  # read at each look at the clock, so that it is set for all in one moment
            "DONT_FAKE_MONOTONIC": "1",
            # Or else it takes a deadline by the clock that only goes forward for one by the other, which is long over:
            # Python's threads wait for each other in that way, and would never let each other run for long.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",  # times of files stay those of the file system
        }

    def set(self, ahead_s: float) -> None:
        """Let it be so far ahead of the machine's from now on."""
        part = self._file.with_name(f".{self._file.name}.part")
        part.write_text(f"{ahead_s:+.3f}\n", "ascii")
        part.replace(self._file)
        self.ahead_s = ahead_s

    def jump(self, seconds: float) -> None:
        """Set it forward, or back."""
        self.set(self.ahead_s + seconds)


def library() -> Path:
    """Where libfaketime is.

    Raises:
        NoLibrary: Nowhere.
    """
    # Its package is not imported: that is for clocks of its own process, and needs more packages.
    found = find_spec("libfaketime")
    file = None if found is None or found.origin is None else Path(found.origin).parent / _LIBRARY
    if file is None or not file.exists():
        raise NoLibrary("there is no libfaketime here: pip install libfaketime, on Linux")
    return file
