"""A disk for a sink, or whatever else is kept, that can be full.

It knows two ways to have one: a small file system in memory, filled by a ballast file, where it may be mounted; or
else a limit on the size of files that processes may write. Its methods block.
"""

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

_PIECE = bytes(1 << 16)


class Disk(Protocol):
    """Something to keep a sink on, or whatever else."""

    @property
    def folder(self) -> Path:
        """To put it in."""
        ...

    def fill(self) -> None:
        """From now on there is no room."""
        ...

    def free(self) -> None:
        """From now on there is."""
        ...


class SmallDisk:
    """A file system of its own.

    Attributes:
        folder: To put what is kept in.
    """

    def __init__(self, folder: Path, ballast: Path) -> None:
        """Take a folder and a file, both on that file system."""
        self.folder = folder
        self._ballast = ballast

    def fill(self) -> None:
        """Write ballast until there is no room for more: what writers say then is ENOSPC."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(_PIECE):
                pass

    def free(self) -> None:
        """Drop the ballast."""
        self._ballast.unlink(missing_ok=True)


class LimitedFiles:
    """A limit on the files of some processes, which stands in for a full disk: what they say then is EFBIG.

    Attributes:
        folder: To put what is kept in.
    """

    def __init__(self, folder: Path, pids: Callable[[], Sequence[int]]) -> None:
        """Take a folder, and what tells which processes write to it."""
        self.folder = folder
        self._pids = pids

    def fill(self) -> None:
        """Let them write nothing."""
        self._limit(0)

    def free(self) -> None:
        """Let them write again."""
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):
                _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))


@contextmanager
def disk(work: Path, megabytes: int, pids: Callable[[], Sequence[int]], *, name: str = "sink") -> Iterator[Disk]:
    """The better of the two, while the context lasts.

    Args:
        work: An empty folder of ours.
        megabytes: Of the small file system.
        pids: Of the processes that write to it, where there is no such thing.
        name: Of the folder on it.
    """
    mount = work / "disk"
    mount.mkdir()
    if not _mounted(mount, megabytes):
        yield LimitedFiles(mount, pids)
        return
    try:
        (mount / name).mkdir()
        yield SmallDisk(mount / name, mount / "ballast")
    finally:
        _run("umount", "--lazy", str(mount))


def _mounted(mount: Path, megabytes: int) -> bool:
    """Whether it could be."""
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "headrace-bench", str(mount))
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _run(command: str, *arguments: str) -> None:
    found = shutil.which(command)
    if found is None:
        raise FileNotFoundError(command)
    subprocess.run([found, *arguments], check=True, capture_output=True)
