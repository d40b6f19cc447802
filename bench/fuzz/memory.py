"""How much memory a process has, and may have.

It knows the limits of the operating system. It does not know what runs.
"""

import resource
from pathlib import Path

_MIB = 1 << 20


def limit(more_mib: int) -> None:
    """Let this process have so much address space more than it has now, and write no core."""
    bound = address_space_bytes() + more_mib * _MIB
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def address_space_bytes() -> int:
    """What this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def peak_mib() -> float:
    """The most that ever was resident of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
