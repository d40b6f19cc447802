"""Looks at processes from time to time: memory, descriptors, threads, and what their pages say.

It knows psutil and page.py. It does not know what the processes do, nor what is judged.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psutil

from soak import page
from soak.page import Page


@dataclass(frozen=True, slots=True)
class Watched:
    """A process.

    Attributes:
        pid: Its id.
        address: Where its page is; None for a process that has none.
    """

    pid: int
    address: str | None = None


@dataclass(slots=True)
class Seen:
    """What was seen of one process; one sample each, at the same moments.

    Attributes:
        at_s: The moments, in seconds since the first.
        mib: Resident memory.
        descriptors: Open files and sockets.
        threads: Of it.
        series: On its page; empty for a process that has none.
        reconnects: That its page tells, likewise.
    """

    at_s: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    descriptors: list[float] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)
    series: list[float] = field(default_factory=list)
    reconnects: list[float] = field(default_factory=list)


class Watch:
    """Samples of some processes.

    Attributes:
        seen: By the name of the process.
    """

    def __init__(self, processes: Mapping[str, Watched], every_s: float) -> None:
        """Take the processes, by name, and how often to look."""
        self.seen = {name: Seen() for name in processes}
        self._processes = {name: (psutil.Process(each.pid), each.address) for name, each in processes.items()}
        self._every_s = every_s
        self._began_s = time.perf_counter()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look while the context lasts.

        Raises:
            psutil.NoSuchProcess: One of them ended.
            OSError: One does not show its page.
        """

        async def watch() -> None:
            while True:
                await self._look()
                await asyncio.sleep(self._every_s)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # it ended by itself, so by an error

    async def _look(self) -> None:
        for name, (process, address) in self._processes.items():
            found = None if address is None else await page.fetch(address)
            self._note(self.seen[name], process, found)

    def _note(self, seen: Seen, process: psutil.Process, found: Page | None) -> None:
        with process.oneshot():
            seen.at_s.append(time.perf_counter() - self._began_s)
            seen.mib.append(process.memory_info().rss / 2**20)
            seen.descriptors.append(process.num_fds())
            seen.threads.append(process.num_threads())
        if found is not None:
            seen.series.append(found.num_series)
            seen.reconnects.append(found.reconnects())
