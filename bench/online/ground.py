"""What all parts stand on: the model, the cores, the texts, the time.

It knows how to have clients' processes run. It does not know what is measured.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from economics import processes
from workloads import PASSAGES, QUERIES, Texts

from online import fleet
from online.amount import Amount
from online.cores import Cores
from online.fleet import Fleet
from online.plan import Plan, Ran, When

SHORT = 10  # tokens of the query that all others are a burden to
_TEXTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a part is given.

    Attributes:
        model: Directory.
        texts: Makes texts for it.
        cores: Who computes where.
        amount: Of time.
        deadline_s: Of online calls under stress.
        options: Flags of the worker.
        say: Told what happens.
        shared: A fleet for all parts.
    """

    model: Path
    texts: Texts
    cores: Cores
    amount: Amount
    deadline_s: float
    options: tuple[str, ...]
    say: Callable[[str], None]
    shared: Fleet | None = None

    def fleet(self) -> AbstractContextManager[Fleet]:
        """One of its own for a part, so that none finds what another left; in a quick run the one that all share."""
        if self.shared is not None:
            return nullcontext(self.shared)
        return fleet.fleet(self.model, self.cores, *self.options)

    def null_fleet(self) -> AbstractContextManager[Fleet]:
        """One whose engine answers at once."""
        return fleet.null_fleet(self.model)

    def queries(self) -> list[list[str]]:
        """Calls of one query each, their lengths as people's are."""
        return _one_each(self.texts.of(QUERIES.draw(_TEXTS, 1), 1))

    def mixed(self) -> list[list[str]]:
        """Calls of one text each: three queries, then a passage, and so on."""
        queries, passages = self.queries(), self.passages()
        return [passages[index] if index % 4 == 3 else query for index, query in enumerate(queries)]

    def short(self) -> list[list[str]]:
        """Calls of one query of ten tokens each."""
        return _one_each(self.texts.of([SHORT] * _TEXTS, 2))

    def passages(self, of_a_call: int = 1) -> list[list[str]]:
        """Calls of so many passages each."""
        texts = self.texts.of(PASSAGES.draw(_TEXTS, 3), 3)
        return [texts[first : first + of_a_call] for first in range(0, len(texts) - of_a_call + 1, of_a_call)]

    def soon(self, seconds: float, after_s: float = 0) -> When:
        """From when the processes of a phase are there, or some seconds later, for so long."""
        return When(begin_s=time.perf_counter() + self.amount.ready_s + after_s, seconds=seconds)


def _one_each(texts: Sequence[str]) -> list[list[str]]:
    return [[text] for text in texts]


async def run(*plans: Plan) -> list[Ran]:
    """Run each plan in a process of its own, all at once.

    Raises:
        ProcessFailed: One ended before its time.
    """
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(processes.ask("online.traffic", plan, Ran)) for plan in plans]
    return [task.result() for task in running]


async def until(moment_s: float) -> None:
    """Wait for a moment of time.perf_counter."""
    await asyncio.sleep(max(0.0, moment_s - time.perf_counter()))
