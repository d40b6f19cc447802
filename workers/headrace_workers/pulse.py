"""Takes the vital signs of a worker while it lives.

Knows which signs there are anyway, and how to get one where there is none: nats-server is asked with a PING, a device
without work with a step of one token. Does not know what the signs mean (health.py).

All is written on the event loop and may be read from any thread: what others read is replaced as a whole, and nothing
that changes its size is handed out.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from headrace_workers.health import Limits, Vitals
from headrace_workers.reading import Reading
from headrace_workers.worker import Worker

logger = logging.getLogger(__name__)


class Pulse:
    """The signs of one process, which has its worker later.

    Attributes:
        limits: how often each is taken.
        worker: once it serves.
        reading: what it had in hand lately.
    """

    def __init__(self, limits: Limits) -> None:
        """Begin without a worker."""
        self.limits = limits
        self.worker: Worker | None = None
        self.reading = Reading.nothing()
        self._begun = asyncio.Event()
        self._turned_s = time.monotonic()
        self._heard_s: float | None = None
        self._probed_s: float | None = None
        self._num_failed = 0
        self._failure = ""

    def begin(self, worker: Worker) -> None:
        """It serves from now on."""
        self.worker = worker
        self._begun.set()

    async def run(self) -> None:
        """Take the signs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_every(self.limits.look_every_s, self._look))
            await self._begun.wait()
            tasks.create_task(_every(self.limits.ask_every_s, self._ask))
            tasks.create_task(_every(self.limits.probe_every_s, self._probe))

    def vitals(self) -> Vitals:
        """The signs now; any thread may ask."""
        worker = self.worker
        if worker is None:
            return Vitals(phase="starting", turned_s=self._turned_s)
        counters = worker.counters
        return Vitals(
            phase=worker.state,
            turned_s=self._turned_s,
            is_connected=worker.broker.link.up.is_set(),
            heard_s=self._heard_s,
            trouble=worker.trouble,
            ran_s=max((at for at in (counters.ran_s, self._probed_s) if at is not None), default=None),
            took_s=counters.took_s,
            num_failed=counters.failed_in_a_row or self._num_failed,
            failure=counters.failure if counters.failed_in_a_row else self._failure,
            busy_since_s=worker.lane.busy_since_s,
        )

    async def _look(self) -> None:
        self._turned_s = time.monotonic()
        if self.worker is not None:
            self.reading = self.worker.reading()

    async def _ask(self) -> None:
        worker = self.worker
        if worker is None or not worker.broker.link.up.is_set():
            return
        try:
            await worker.broker.nats.flush(timeout=self.limits.ask_every_s)  # type: ignore[arg-type] # it takes any number
        except Exception:  # noqa: BLE001 - whatever it raises, nats-server has not answered
            return
        self._heard_s = time.monotonic()

    async def _probe(self) -> None:
        """Run one token where nothing else does: a query that comes in this moment waits for no more than that."""
        worker = self.worker
        if worker is None or worker.state != "serving" or not worker.is_idle:
            return
        ran_s = worker.counters.ran_s
        if ran_s is not None and time.monotonic() - ran_s < self.limits.probe_every_s:
            return
        error = await worker.lane.probe()
        if error is None:
            self._probed_s, self._num_failed = time.monotonic(), 0
        else:
            self._num_failed, self._failure = self._num_failed + 1, f"one token on an idle device: {error!r}"


async def _every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    """Do it now and, for ever, so many seconds after each end."""
    while True:
        try:
            await act()
        except Exception:
            # A worker that works is not to be restarted for it.
            logger.exception("This is a bug: a sign of life cannot be taken")
        await asyncio.sleep(seconds)
