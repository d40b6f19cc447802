"""What a fleet can do: the most tokens a second that it answers, by whatever number of callers.

It knows closed loops, in which nothing queues that a caller does not wait for. Rungs with more callers fill larger
steps; the best rung counts, so that an overload is not praised for steps that a few callers cannot fill.
"""

import asyncio
from dataclasses import dataclass

from online.call import Call, ended
from online.fleet import Fleet
from online.ground import Ground, run, until
from online.plan import Loop, Plan
from online.tally import Tally

RUNGS = (32, 128, 512)
_PROCESSES = 2
_RAMP = 0.25  # of a rung: until all callers are there


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What was found.

    Attributes:
        calls_per_s: Answered, by the best rung.
        tokens_per_s: Answered, by the best rung.
        callers: Of the best rung.
        client_cores: Cores that the callers kept busy meanwhile.
        worker_cores: Cores that the worker kept busy meanwhile: fewer than in an overload, where something else on the
            machine had them.
    """

    calls_per_s: float
    tokens_per_s: float
    callers: int
    client_cores: float
    worker_cores: float

    @classmethod
    def of(
        cls, calls: list[Call], first_s: float, last_s: float, *, callers: int, client_cores: float, worker_cores: float
    ) -> "Capacity":
        """What the calls of one rung that ended within these moments come to."""
        tally = Tally.of(ended(calls, first_s, last_s))
        seconds = last_s - first_s
        return cls(
            calls_per_s=tally.answered / seconds,
            tokens_per_s=tally.tokens / seconds,
            callers=callers,
            client_cores=client_cores,
            worker_cores=worker_cores,
        )


async def measure(ground: Ground, fleet: Fleet, texts: list[list[str]]) -> Capacity:
    """Climb the rungs.

    Raises:
        RuntimeError: None of them was answered anything.
    """
    callers = RUNGS[:1] if ground.amount.is_quick else RUNGS
    seconds = ground.amount.capacity_s / len(callers)
    rungs = [await _rung(ground, fleet, texts, number, seconds) for number in callers]
    best = max(rungs, key=lambda rung: rung.tokens_per_s)
    if not best.tokens_per_s:
        raise RuntimeError("the fleet answered nothing while its capacity was measured: see the worker's log")
    return best


async def _rung(ground: Ground, fleet: Fleet, texts: list[list[str]], callers: int, seconds: float) -> Capacity:
    when = ground.soon(seconds)
    plans = [
        Plan(
            url=fleet.url,
            texts=texts[number:] + texts[:number],
            loop=Loop(callers=callers // _PROCESSES, seed=number),
            when=when,
            stands_for_many=True,
        )
        for number in range(_PROCESSES)
    ]
    async with asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(run(*plans))
        await until(when.begin_s)
        before = fleet.reading()
        await until(when.end_s)
        used = fleet.reading().since(before)
    ran = calling.result()
    calls = [call for each in ran for call in each.calls]
    return Capacity.of(
        calls,
        when.begin_s + _RAMP * when.seconds,
        when.end_s,
        callers=callers,
        client_cores=sum(each.cores for each in ran),
        worker_cores=used.cpu_s["worker"] / used.at_s,
    )
