"""Where and of what a benchmark was run: the machine, the versions, the commit.

It knows what makes two results comparable. It takes nothing that names a person, a host or a place on a disk, so that
results can be published as they are.
"""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from headrace.local import server_binary

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The facts of one run.

    Attributes:
        date: When it began, UTC.
        commit: Of this repository; None where there is none.
        dirty: Whether the working tree differs from the commit; None where that is unknown.
        processor: Model name.
        cores: Logical cores that this process may use.
        memory_gib: Of the machine.
        load: Processes that were running when it began, the average of a minute; None where unknown.
        system: Operating system and architecture.
        python: Version.
        torch: Version.
        nats_server: Version.
        threads: That torch uses for one operation.
        dtype: That the engine computes in.
        omp_wait_policy: The environment variable, which decides whether idle threads spin.
    """

    date: str
    commit: str | None
    dirty: bool | None
    processor: str
    cores: int
    memory_gib: float
    load: float | None
    system: str
    python: str
    torch: str
    nats_server: str
    threads: int
    dtype: str
    omp_wait_policy: str | None

    @classmethod
    def here(cls, dtype: str) -> "Machine":
        """Look around.

        Args:
            dtype: That the engine computes in.
        """
        status = _git("status", "--porcelain")
        return cls(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=_git("rev-parse", "--verify", "--quiet", "HEAD") or None,
            dirty=None if status is None else bool(status),
            processor=_processor(),
            cores=_cores(),
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            load=_load(),
            system=f"{_system()} {platform.machine()}",
            python=platform.python_version(),
            torch=str(torch.__version__),
            nats_server=_output(server_binary(), "--version").rpartition("v")[2],
            threads=torch.get_num_threads(),
            dtype=dtype,
            omp_wait_policy=os.environ.get("OMP_WAIT_POLICY"),
        )


def _processor() -> str:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    # Not every system has affinities.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _git(*arguments: str) -> str | None:
    """What git says of this repository; None without git, outside a repository, or where there is no answer."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        return _output(git, "-C", str(Path(__file__).parent), *arguments)
    except subprocess.CalledProcessError:
        return None


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
