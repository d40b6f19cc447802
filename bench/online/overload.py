"""An overload: five times as many calls as the fleet can answer, each with a deadline.

Whether the fleet goes on answering as much as it can, in time, and tells the others at once; whether memory stays flat;
whether each call is accounted for; and how soon a light load is served as before once the overload is over.

What is compared. Capacity is the best that closed loops get out of the same fleet, by the same processes that make the
overload, on the same cores: the worker has cores of its own, as a device would, and nats-server and all callers share
the others (cores.py), so that busy callers take nothing from the worker, and the two phases differ in the arrivals
alone. Were all on the same cores, the overload would be measured against a worker that it robs.

Callers are the client library, from token ids on: texts are tokenised beforehand, and a connection stands for many
clients. Three calls of four are a query, the fourth is a passage: of queries alone there would be so many, five times
over, that Python could not offer them on the cores that are left. Where it cannot nevertheless, the rate that was
offered says so, and is judged, too.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass

from economics.meter import Reading

from online import capacity, recovery
from online.call import Call, begun, ended, took_ms
from online.capacity import Capacity
from online.finding import Figure, Finding, Verdict, p99_ms
from online.fleet import Fleet
from online.ground import Ground, run, until
from online.left import left
from online.memory import Memory, allowed, thirds
from online.plan import Loop, Plan, Ran, When
from online.tally import Tally

TIMES = 5
_PROCESSES = 2
_LIGHT_RATE = 50.0
_GOODPUT, _OFFERED, _RECOVERY_S = 0.9, 0.95, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that was seen.

    Attributes:
        capacity: Before the overload.
        deadline_s: Of each call of the overload.
        wanted_rate: Calls a second that were to be offered.
        when: The overload.
        heavy: What its processes did.
        light: Calls of the light load, before, during and after.
        light_from_s: When that began.
        memory: Of the fleet, during the overload.
        used: Processor time of the fleet, during the overload.
        left: Chunks in the online queue at the end.
    """

    capacity: Capacity
    deadline_s: float
    wanted_rate: float
    when: When
    heavy: list[Ran]
    light: list[Call]
    light_from_s: float
    memory: Memory
    used: Reading
    left: int


async def measure(ground: Ground) -> Finding:
    """Run the part."""
    with ground.fleet() as fleet:
        calls = ground.mixed()
        await fleet.warm_up(calls[0][0])
        ground.say("overload: what the fleet can do")
        can = await capacity.measure(ground, fleet, calls)
        rate = TIMES * can.calls_per_s
        ground.say(f"overload: {rate:,.0f} calls/s, {TIMES} × what it can, for {ground.amount.overload_s:g} s")
        return finding(await _overload(ground, fleet, can, rate, calls))


async def _overload(ground: Ground, fleet: Fleet, can: Capacity, rate: float, calls: list[list[str]]) -> Measured:
    amount = ground.amount
    when = ground.soon(amount.overload_s, after_s=amount.idle_s)
    light = When(begin_s=when.begin_s - amount.idle_s, seconds=amount.idle_s + amount.overload_s + amount.after_s)
    plans = [_heavy(ground, fleet, when, rate / _PROCESSES, calls, number) for number in range(_PROCESSES)]
    memory = Memory(fleet.pids)
    async with asyncio.TaskGroup() as tasks:
        # Two groups of processes: the light load says how the fleet fares while the others are not there.
        probing = tasks.create_task(run(_light(ground, fleet, light)))
        pressing = tasks.create_task(run(*plans))
        await until(when.begin_s)
        before = fleet.reading()
        async with memory.watched():
            await until(when.end_s)
        used = fleet.reading().since(before)
    (probed,) = probing.result()
    return Measured(
        capacity=can,
        deadline_s=ground.deadline_s,
        wanted_rate=rate,
        when=when,
        heavy=pressing.result(),
        light=list(probed.calls),
        light_from_s=light.begin_s,
        memory=memory,
        used=used,
        left=await left(fleet.url, "online"),
    )


def _heavy(ground: Ground, fleet: Fleet, when: When, rate: float, calls: list[list[str]], number: int) -> Plan:
    return Plan(
        url=fleet.url,
        texts=calls[number:] + calls[:number],
        loop=Loop(rate=rate, seed=number),
        when=when,
        timeout_s=ground.deadline_s,
        stands_for_many=True,
    )


def _light(ground: Ground, fleet: Fleet, when: When) -> Plan:
    return Plan(
        url=fleet.url,
        texts=ground.short(),
        loop=Loop(rate=_LIGHT_RATE, seed=9),
        when=when,
        timeout_s=ground.deadline_s,
    )


def finding(seen: Measured) -> Finding:
    """What it comes to."""
    heavy = [call for ran in seen.heavy for call in ran.calls]
    tally = Tally.of(heavy, sum(ran.offered for ran in seen.heavy))
    books = ("offered", "answered", "refused", "expired", "failed")
    figures, verdicts = _throughput(seen, heavy)
    memory_figures, memory_verdicts = _memory(seen.memory)
    recovery_figures, recovery_verdicts = _recovery(seen)
    return Finding(
        part="overload",
        what=(
            f"{TIMES} × capacity for {seen.when.seconds:g} s, three queries to a passage, "
            f"each with a deadline of {seen.deadline_s:g} s"
        ),
        figures=[
            *figures,
            *(Figure(what=name, value=getattr(tally, name), unit="calls") for name in books),
            *memory_figures,
            *recovery_figures,
            *_processors(seen),
        ],
        verdicts=[
            *verdicts,
            Verdict(what="calls without an account", found=tally.unaccounted, limit=0, sense="at most"),
            Verdict(what="chunks left in the queue", found=seen.left, limit=0, sense="at most"),
            *memory_verdicts,
            *recovery_verdicts,
        ],
        series={f"MiB of {name}": samples for name, samples in seen.memory.mib.items()},
        notes=[error for ran in seen.heavy for error in ran.errors],
    )


def _throughput(seen: Measured, heavy: list[Call]) -> tuple[list[Figure], list[Verdict]]:
    when, can, deadline_ms = seen.when, seen.capacity, seen.deadline_s * 1000
    offered_per_s = len(begun(heavy, when.begin_s, when.end_s)) / when.seconds
    good = Tally.of(call for call in ended(heavy, when.begin_s, when.end_s) if call.took_ms <= deadline_ms)
    share = good.tokens / when.seconds / can.tokens_per_s
    # What was let in and not answered in time counts with the time that its caller waited.
    accepted = took_ms(heavy, "answered", "expired")
    offered_share = offered_per_s / seen.wanted_rate
    return [
        Figure(what="capacity", value=can.calls_per_s, unit="calls/s"),
        Figure(what="capacity", value=can.tokens_per_s, unit="tokens/s"),
        Figure(what="callers at capacity", value=can.callers),
        Figure(what="offered", value=offered_per_s, unit="calls/s"),
        Figure(what="goodput", value=good.answered / when.seconds, unit="calls/s"),
        *Figure.spread("accepted", accepted),
        *Figure.spread("refused", took_ms(heavy, "refused")),
        Figure(what="made later than due, p99", value=p99_ms([call.late_ms for call in heavy]), unit="ms"),
    ], [
        Verdict(what="offered, of what was to be", found=offered_share, limit=_OFFERED, sense="at least"),
        Verdict(what="goodput, of capacity", found=share, limit=_GOODPUT, sense="at least"),
        Verdict(what="p99 of accepted", found=p99_ms(accepted), limit=deadline_ms, sense="at most", unit="ms"),
    ]


def _memory(memory: Memory) -> tuple[list[Figure], list[Verdict]]:
    figures, verdicts = [], []
    for name, samples in memory.mib.items():
        first, last = thirds(samples)
        figures.append(Figure(what=f"memory of {name}, first third", value=first, unit="MiB"))
        what = f"memory of {name}, last third"
        verdicts.append(Verdict(what=what, found=last, limit=allowed(first), sense="at most", unit="MiB"))
    return figures, verdicts


def _recovery(seen: Measured) -> tuple[list[Figure], list[Verdict]]:
    begin_s, end_s = seen.when.begin_s, seen.when.end_s
    idle = recovery.windows(seen.light, seen.light_from_s, begin_s)
    during = begun(seen.light, begin_s, end_s)
    bound_ms = recovery.worst_p99_ms(idle)
    last_s = max(call.began_s for call in seen.light)
    took_s = recovery.recovered_after_s(recovery.windows(seen.light, end_s, last_s), bound_ms)
    return [
        *Figure.spread("light load before", [call.took_ms for window in idle for call in window]),
        *Figure.spread("light load meanwhile", [call.took_ms for call in during]),
        Figure(what="light load meanwhile, answered", value=Tally.of(during).success),
        Figure(what="worst p99 of half a second before", value=bound_ms, unit="ms"),
    ], [
        Verdict(
            what="recovery of the light load",
            found=math.inf if took_s is None else took_s,
            limit=_RECOVERY_S,
            sense="at most",
            unit="s",
        )
    ]


def _processors(seen: Measured) -> Iterator[Figure]:
    """Cores that were busy during the overload, in the mean; of the callers at capacity, too."""
    seconds = seen.when.seconds
    for name, used in seen.used.cpu_s.items():
        yield Figure(what=f"{name} kept busy", value=used / seconds, unit="cores")
    yield Figure(what="callers kept busy", value=sum(ran.cores for ran in seen.heavy), unit="cores")
    yield Figure(what="worker at capacity kept busy", value=seen.capacity.worker_cores, unit="cores")
    yield Figure(what="callers at capacity kept busy", value=seen.capacity.client_cores, unit="cores")
