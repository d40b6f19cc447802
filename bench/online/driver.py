"""Makes calls at the moments that a loop says, and keeps what became of them.

It knows the clock and the two kinds of loops. What a call is it is told. An open loop that falls behind makes what is
due at once, and each call says how late it was.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

import numpy as np

from online.arrivals import poisson
from online.call import Call, Kind
from online.plan import Loop, Ran, When

_MAX_ERRORS = 5
_COME_BACK_S = 0.05  # a caller who waits for his answers does not ask again at once when he is told to come back later

End = tuple[Kind, int, float]
"""How a call ended, its tokens, and the longest step in ms that any of it ran in."""


class Driver:
    """Drives one load."""

    def __init__(self, make: Callable[[int], Awaitable[End]]) -> None:
        """Take what a call is.

        Args:
            make: Makes a call, told how many came before it; an exception of it counts as a call that failed.
        """
        self._make = make
        self._numbers = count()
        self._calls: list[Call] = []
        self._errors: list[str] = []

    async def run(self, loop: Loop, when: When) -> Ran:
        """Make calls from the first moment to the last, and wait for those that have begun."""
        await asyncio.sleep(max(0.0, when.begin_s - time.perf_counter()))
        started_s, used = time.perf_counter(), time.process_time()
        if loop.rate is not None:
            await self._open(loop.rate, loop.seed, when)
        else:
            async with asyncio.TaskGroup() as tasks:
                for caller in range(loop.callers):
                    tasks.create_task(self._closed(caller, loop, when))
        cores = (time.process_time() - used) / (time.perf_counter() - started_s)
        return Ran(offered=next(self._numbers), calls=self._calls, cores=cores, errors=self._errors)

    async def _open(self, rate: float, seed: int, when: When) -> None:
        begin_s = max(when.begin_s, time.perf_counter())
        async with asyncio.TaskGroup() as tasks:
            for after_s in poisson(rate, when.seconds, seed):
                due_s = begin_s + after_s
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                if time.perf_counter() >= begin_s + when.seconds:
                    return  # far behind: the load must end when it is to end, and be told as smaller than it was to be
                tasks.create_task(self._call(due_s))

    async def _closed(self, caller: int, loop: Loop, when: When) -> None:
        random = np.random.default_rng((loop.seed, caller))
        while True:
            if loop.pause_s:
                await asyncio.sleep(random.exponential(loop.pause_s))
            now_s = time.perf_counter()
            if now_s >= when.end_s:
                return
            if await self._call(now_s) == "refused":
                await asyncio.sleep(_COME_BACK_S)

    async def _call(self, due_s: float) -> Kind:
        number, began_s = next(self._numbers), time.perf_counter()
        kind: Kind
        try:
            kind, tokens, run_ms = await self._make(number)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a call that failed, and is told as one
            kind, tokens, run_ms = "failed", 0, 0.0
            if len(self._errors) < _MAX_ERRORS:
                self._errors.append(repr(error))
        took_ms = (time.perf_counter() - began_s) * 1000
        self._calls.append(Call(began_s, (began_s - due_s) * 1000, took_ms, kind, tokens, run_ms))
        return kind
