"""Does a plan of faults to a fleet: each when it is due, those of one thing after another, and all mended at the end.

It knows time and what may go on beside what. How each is done is breakage.py's.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from survival.breakage import Breakage, breakage, bring_back, revive
from survival.faults import Fault, Kind
from survival.fleet import Fleet
from survival.node import Node

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Done:
    """A fault as it was done.

    Attributes:
        kind: Of it.
        what: It was done to.
        began_s: By the machine's monotonic clock.
        ended_s: When it was mended.
    """

    kind: Kind
    what: str
    began_s: float
    ended_s: float


class Breaking:
    """Of one fleet.

    Attributes:
        done: What was done so far, in the order in which it ended.
    """

    def __init__(self, fleet: Fleet, say: Callable[[str], None]) -> None:
        """Take what is to be broken, and who is told of it."""
        self.done: list[Done] = []
        self._fleet = fleet
        self._say = say
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, plan: Sequence[Fault]) -> None:
        """Do all of it; returns when all is mended, also when this is cancelled.

        Raises:
            Exception: A fault could not be done or mended.
        """
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for fault in plan:
                await asyncio.sleep(max(0.0, begun_s + fault.at_s - loop.time()))
                tasks.create_task(self._one(fault))

    async def keep(self) -> None:
        """Start again who will not go on by himself and is not broken now, as those who run them do, until cancelled.

        Raises:
            Exception: A process of the trial could not be started.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_workers())
            for node in self._fleet.cluster.nodes.values():
                tasks.create_task(self._keep_server(node))

    async def _keep_workers(self) -> None:
        """Those that have ended."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            for number in self._fleet.crew.ended:
                async with self._locks[f"worker-{number}"]:
                    if number in self._fleet.crew.ended:
                        await bring_back(self._fleet.crew, number)

    async def _keep_server(self, node: Node) -> None:
        """One that found its disk full, once there is room: it does not try again."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            async with self._locks[node.name]:
                await revive(node)

    async def _one(self, fault: Fault) -> None:
        broken = breakage(fault, self._fleet)
        async with AsyncExitStack() as stack:
            for name in sorted(broken.of):  # in one order, so that nobody waits in a circle
                await stack.enter_async_context(self._locks[name])
            with self._kept(fault, broken):
                await _to_its_end(_broken(broken, fault.lasts_s))

    @contextmanager
    def _kept(self, fault: Fault, broken: Breakage) -> Iterator[None]:
        began_s, what = monotonic(), "+".join(sorted(broken.of))
        self._say(f"{fault.kind}: {what} for {fault.lasts_s:.1f} s")
        try:
            yield
        finally:
            self.done.append(Done(fault.kind, what, began_s, monotonic()))


async def _broken(broken: Breakage, seconds: float) -> None:
    try:
        await broken.do()
        await asyncio.sleep(seconds)
    finally:
        await broken.mend()


async def _to_its_end(breaking: Coroutine[Any, Any, None]) -> None:
    """Let a fault last until it is mended, though this is cancelled."""
    task = asyncio.create_task(breaking)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
