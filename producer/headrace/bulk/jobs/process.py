"""Which process this is, and whether another one of this machine is still there.

Knows the operating system's /proc, where there is one. Does not know jobs.
"""

import os
import secrets
import socket
from pathlib import Path

from headrace.bulk.jobs.record import Owner

_PROC = Path("/proc")
# States of /proc/<pid>/stat of a process that has ended: zombie, and two spellings of dead.
_ENDED = frozenset({"Z", "X", "x"})


def this_process() -> Owner:
    """A new owner: this process."""
    found = _stat(os.getpid())
    return Owner(
        process=secrets.token_hex(8),
        host=socket.gethostname(),
        pid=os.getpid(),
        system=_system(),
        started=None if found is None else found[1],
    )


def is_gone(owner: Owner) -> bool:
    """Whether the owner was a process of this machine and has ended; of others nothing is known, so False."""
    # Equal pids of two containers are two processes.
    if owner.system is None or owner.started is None or owner.system != _system():
        return False
    found = _stat(owner.pid)
    if found is None:
        return not _is_there(owner.pid)
    return found[0] in _ENDED or found[1] != owner.started


def _is_there(pid: int) -> bool:
    """Whether there is such a process: another user's may be hidden from /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _system() -> str | None:
    """Which run of the operating system and which PID namespace this is."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return None


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process, and when it started, in ticks since boot; None if there is none."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # After the program's name, which is in brackets and may hold any byte.
    state, *numbers = stat.rpartition(b")")[2].split()
    return state.decode(), int(numbers[18])
