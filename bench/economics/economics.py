"""What all but the model costs: the message path, the growth with workers, the backlog.

It knows how much of each a run does. Each has a file of its own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from economics import backlog, engine_cpu, message_path
from economics.batch_queue import Queue
from economics.growth import Crowd
from economics.message_path import Case
from result import Backlog, Economics, Growth, MessagePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much to measure; an empty tuple leaves its part out.

    Attributes:
        clients: Numbers of callers with one query at a time.
        path_s: Seconds of a case of the message path.
        engine_s: Seconds of each step that the path is compared with.
        null: Numbers of workers whose engine answers at once.
        real: Numbers of real workers.
        growth_s: Seconds of each number.
        depths: Of the backlog, in rising order.
        drain_s: Seconds to take chunks out at a depth, at most.
    """

    clients: tuple[int, ...] = (1, 4, 16)
    path_s: float = 3
    engine_s: float = 1.5
    null: tuple[int, ...] = (1, 2, 4)
    real: tuple[int, ...] = (1, 2, 4, 8)
    growth_s: float = 4
    depths: tuple[int, ...] = (1_000, 10_000, 100_000)
    drain_s: float = 5


FULL = Amount()
QUICK = Amount(
    clients=(1, 16),
    path_s=0.5,
    engine_s=0.2,
    null=(),
    real=(),
    depths=(1_000,),
    drain_s=2,
)


def measure(
    model: str,
    *,
    dtype: str,
    threads: int,
    scale: Literal["full", "quick"],
    say: Callable[[str], None],
) -> Economics:
    """Measure as much as a run of the benchmark does.

    Args:
        model: A directory; it must take texts of 512 tokens.
        dtype: That the engine computes in.
        threads: For the engine; real workers share them.
        scale: Within three minutes on two cores, or half a minute.
        say: Told what happens.
    """
    return asyncio.run(measured(model, dtype, threads, FULL if scale == "full" else QUICK, say))


async def measured(model: str, dtype: str, threads: int, amount: Amount, say: Callable[[str], None]) -> Economics:
    """Measure as much as is asked; see `measure`.

    Raises:
        NoRoom: The disk is too small for a backlog; nothing was measured.
    """
    backlog.check(amount.depths)
    return Economics(
        path=await _path(model, dtype, threads, amount, say),
        growth=await _growth(model, dtype, threads, amount, say),
        backlog=await _backlog(model, amount, say),
    )


async def _path(
    model: str, dtype: str, threads: int, amount: Amount, say: Callable[[str], None]
) -> tuple[MessagePath, ...]:
    if not amount.clients:
        return ()
    cases = tuple(Case.all(amount.clients, amount.path_s))
    say("processor time of the engine alone")
    shapes = tuple(case.step for case in cases)
    plan = engine_cpu.Plan(model=model, dtype=dtype, threads=threads, shapes=shapes, seconds=amount.engine_s)
    alone = await engine_cpu.measure(plan)
    say("the message path")
    return await message_path.measure(model, cases, alone)


async def _growth(
    model: str, dtype: str, threads: int, amount: Amount, say: Callable[[str], None]
) -> tuple[Growth, ...]:
    if not (amount.null or amount.real):
        return ()
    async with Queue.opened(model, message_path.CHUNK_TOKENS) as queue:
        crowd = Crowd(queue, model, amount.growth_s, say)
        null = [found async for found in crowd.null(amount.null)]
        real = [found async for found in crowd.real(amount.real, dtype, threads)]
        return (*null, *real)


async def _backlog(model: str, amount: Amount, say: Callable[[str], None]) -> tuple[Backlog, ...]:
    return await backlog.measure(model, amount.depths, amount.drain_s, say) if amount.depths else ()
