"""What the processes of a job take while it runs: memory of each, and disk of the broker.

It samples them at even distances. It does not know what they do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from economics.meter import disk_mib, memory_mib
from psutil import NoSuchProcess

_EVERY_S = 0.5
PRODUCER, BROKER, WORKER = "producer", "nats-server", "worker"


class Footprint:
    """Samples.

    Attributes:
        mib: Resident memory by name, and `disk`.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int | None]], store: Path) -> None:
        """Take what tells the processes by name, None of one that does not run, and the broker's folder."""
        self._pids = pids
        self._store = store
        self.mib: dict[str, list[float]] = {"disk": []}

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Sample while the context lasts."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self) -> None:
        while True:
            for name, pid in self._pids().items():
                if pid is not None:
                    self._sample(name, pid)
            # Thousands of small files are walked through: not on the event loop.
            self.mib["disk"].append(await asyncio.to_thread(disk_mib, self._store))
            await asyncio.sleep(_EVERY_S)

    def _sample(self, name: str, pid: int) -> None:
        try:
            self.mib.setdefault(name, []).append(memory_mib(pid))
        except NoSuchProcess:
            return
