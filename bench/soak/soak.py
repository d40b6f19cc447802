"""Runs a fleet under mixed load for a while, and judges: nothing grows, nothing reconnects, nothing is lost.

It knows what is judged. What runs, what is asked and what flat means have files of their own.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace import Client
from online.call import Call, begun, took_ms
from online.finding import Figure, Finding, Verdict, p50_ms, p99_ms
from online.gateway_process import MODEL
from online.ground import Ground
from online.left import left
from online.plan import Ran, When
from online.tally import Tally

from soak import crew, jobs, load
from soak.jobs import Jobs
from soak.load import Rates
from soak.slope import Slope, settled
from soak.watch import Seen, Watch

# Of callers that wait. Others may be refused or late, as whoever calls too much or waits too little must expect.
_PATIENT = ("queries", "passages", "http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much.

    Attributes:
        seconds: Of the load.
        every_s: Between two looks at the processes.
        workers: Of the fleet.
        documents: Of each job.
        rates: Of calls.
    """

    seconds: float
    every_s: float = 10
    workers: int = 2
    documents: int = 4000
    rates: Rates = Rates()  # noqa: RUF009 - frozen


async def measure(ground: Ground, settings: Settings, work: Path) -> Finding:
    """Run all of it.

    Args:
        ground: The model, its texts and the cores.
        settings: How much.
        work: Folder for all that is written.
    """
    threads = max(1, len(ground.cores.all) // settings.workers)
    async with crew.running(str(ground.model), workers=settings.workers, threads=threads, work=work) as running:
        await _warm_up(ground, running.url)
        when = ground.soon(settings.seconds)
        watch = Watch(running.processes, settings.every_s)
        ground.say(f"soak: {settings.seconds:g} s of mixed load")
        async with watch.watching(), asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(load.ask(ground, running.url, running.gateway_port, settings.rates, when))
            indexing = tasks.create_task(
                jobs.run(
                    running.url,
                    model=MODEL,
                    vocabulary=ground.model / "tokenizer.json",
                    documents=settings.documents,
                    work=work,
                    until_s=when.end_s,
                )
            )
        num_left = await left(running.url, "online", "batch")
    return finding(watch.seen, asking.result(), indexing.result(), when, num_left)


async def _warm_up(ground: Ground, url: str) -> None:
    async with await Client.connect(url) as client:
        for (text,) in ground.short()[:20]:
            await client.embed(text)


def finding(seen: Mapping[str, Seen], ran: Mapping[str, Ran], done: Jobs, when: When, num_left: int) -> Finding:
    """What it comes to.

    Args:
        seen: Samples of each process.
        ran: What came of each kind of calls.
        done: What came of the jobs.
        when: The load was there.
        num_left: Messages in the queues after it.
    """
    memory = {name: _slope(each, each.mib) for name, each in seen.items()}
    tallies = {name: Tally.of(each.calls, each.offered) for name, each in ran.items()}
    return Finding(
        part="soak",
        what=f"{when.seconds / 60:g} minutes of queries, passages, large and hurried calls, HTTP and bulk jobs",
        figures=[
            *(Figure(what=f"{name}, memory", value=each.level, unit="MiB") for name, each in memory.items()),
            *(Figure(what=f"{name}, memory", value=each.per_hour, unit="MiB/h") for name, each in memory.items()),
            *(Figure(what=f"{name}, descriptors", value=each.descriptors[-1]) for name, each in seen.items()),
            *(Figure(what=f"{name}, series", value=each.series[-1]) for name, each in seen.items() if each.series),
            *(Figure(what=f"{name} answered", value=each.answered, unit="calls") for name, each in tallies.items()),
            *_drift("queries", ran["queries"].calls, when),
            *_drift("http", ran["http"].calls, when),
            Figure(what="jobs that are whole", value=done.done),
            Figure(what="rows that they wrote", value=done.rows),
        ],
        verdicts=[
            *(_flat(f"memory of {name}", each) for name, each in memory.items()),
            *(_flat(f"descriptors of {name}", _slope(each, each.descriptors)) for name, each in seen.items()),
            *(_flat(f"threads of {name}", _slope(each, each.threads)) for name, each in seen.items()),
            *(_flat(f"series of {name}", _slope(each, each.series)) for name, each in seen.items() if each.series),
            _none("reconnects", sum(each.reconnects[-1] for each in seen.values() if each.reconnects)),
            _none("calls without an account", sum(each.unaccounted for each in tallies.values())),
            _none("jobs that are not whole", len(done.faults)),
            _none("messages left in queues", num_left),
            *(
                Verdict(what=f"{name} answered", found=tallies[name].success, limit=0.999, sense="at least")
                for name in _PATIENT
            ),
        ],
        series={f"MiB of {name}": [round(value, 2) for value in each.mib] for name, each in seen.items()},
        notes=[*done.faults, *(error for each in ran.values() for error in each.errors)],
    )


def _slope(seen: Seen, values: list[float]) -> Slope:
    counted = settled(values)
    return Slope.of(seen.at_s[counted], values[counted])


def _flat(what: str, slope: Slope) -> Verdict:
    return Verdict(what=f"growth of {what}, in noise", found=slope.over_noise, limit=1, sense="at most")


def _none(what: str, found: float) -> Verdict:
    return Verdict(what=what, found=found, limit=0, sense="at most")


def _drift(what: str, calls: Sequence[Call], when: When) -> list[Figure]:
    """Latency in the first and in the last third."""
    third = when.seconds / 3
    first = took_ms(begun(calls, when.begin_s, when.begin_s + third), "answered")
    last = took_ms(begun(calls, when.end_s - third, when.end_s), "answered")
    return [
        Figure(what=f"{what}, p50 of the first third", value=p50_ms(first), unit="ms"),
        Figure(what=f"{what}, p50 of the last third", value=p50_ms(last), unit="ms"),
        Figure(what=f"{what}, p99 of the first third", value=p99_ms(first), unit="ms"),
        Figure(what=f"{what}, p99 of the last third", value=p99_ms(last), unit="ms"),
    ]
