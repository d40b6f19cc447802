"""Resident memory of processes over time, and what counts as flat.

It knows samples, and reads them through economics/meter.py. It does not know what the processes do.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from statistics import median

from economics.meter import memory_mib

_EVERY_S = 0.5
# What an allocator may still take from the system when no more is needed: a twentieth, and what is small in any case.
_SHARE, _MIB = 0.05, 8.0


class Memory:
    """Samples of some processes.

    Attributes:
        mib: By name, one after the other at even distances.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        """Take the processes, by name."""
        self._pids = pids
        self.mib: dict[str, list[float]] = {name: [] for name in pids}

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Sample while the context lasts."""

        async def watch() -> None:
            while True:
                self.sample()
                await asyncio.sleep(_EVERY_S)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def sample(self) -> None:
        """Look once."""
        for name, pid in self._pids.items():
            self.mib[name].append(memory_mib(pid))


def thirds(samples: Sequence[float]) -> tuple[float, float]:
    """Medians of the first and of the last third of at least one sample."""
    third = max(1, len(samples) // 3)
    return median(samples[:third]), median(samples[-third:])


def allowed(first_mib: float) -> float:
    """What the last third may have, given the first: as much, and what an allocator may keep."""
    return first_mib * (1 + _SHARE) + _MIB
