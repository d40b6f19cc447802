"""What processes use: processor time, memory, disk.

It knows psutil and directories. It does not know who the processes are.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_SCHEDULED = 2  # CPUCLOCK_SCHED of Linux: user and system time
_BLOCK = 512  # st_blocks counts in these, whatever the file system's are (POSIX)


@dataclass(frozen=True, slots=True)
class Reading:
    """What some processes have used up to a moment.

    Attributes:
        at_s: The moment, on a clock that is the same for all processes of a machine.
        cpu_s: Processor seconds by name.
    """

    at_s: float
    cpu_s: Mapping[str, float]

    @classmethod
    def of(cls, pids: Mapping[str, Sequence[int]]) -> Self:
        """Read now.

        Args:
            pids: By name; those of one name are added up.
        """
        return cls(time.perf_counter(), {name: sum(map(_cpu_s, those)) for name, those in pids.items()})

    def since(self, earlier: "Reading") -> "Reading":
        """The difference."""
        return Reading(
            self.at_s - earlier.at_s, {name: used - earlier.cpu_s[name] for name, used in self.cpu_s.items()}
        )

    def plus(self, other: "Reading") -> "Reading":
        """The sum of two differences."""
        return Reading(self.at_s + other.at_s, {name: used + other.cpu_s[name] for name, used in self.cpu_s.items()})

    def us_per(self, count: int) -> dict[str, float]:
        """Processor microseconds by name for each of `count` things, at least one."""
        return {name: used / count * 1e6 for name, used in self.cpu_s.items()}


def _cpu_s(pid: int) -> float:
    if sys.platform == "linux":
        # The process's own clock, to the nanosecond (clock_getcpuclockid(3)); psutil counts in hundredths of a second.
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def disk_mib(directory: Path) -> float:
    """Disk that the files under a directory take, those apart that vanish meanwhile."""
    taken = 0
    for file in directory.rglob("*"):
        try:
            taken += file.lstat().st_blocks * _BLOCK
        except FileNotFoundError:
            continue
    return taken / 2**20
