"""Runs a fleet under mixed load for a while, and judges: nothing grows, nothing reconnects, nothing is lost.

It knows what is judged. What runs, what is asked and what flat means have files of their own.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace import Client
from headrace_contracts import PRIORITIES, topology
from online.call import Call, begun, took_ms
from online.finding import Figure, Finding, Verdict, p50_ms, p99_ms
from online.gateway_process import MODEL
from online.ground import Ground
from online.left import kept, left
from online.plan import Ran, When
from online.tally import Tally

from soak import crew, jobs, load
from soak.accounts import Account, accounts
from soak.crew import Crew
from soak.drift import Drift
from soak.jobs import Jobs
from soak.load import Rates
from soak.slope import Slope, settled
from soak.watch import Seen, Watch

# Of callers that wait. Others may be refused or late, as whoever calls too much or waits too little must expect.
_PATIENT = ("queries", "passages", "http")
_LEFT_S, _LOOK_EVERY_S = 30.0, 0.5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What there is once nobody asks for anything any more.

    Attributes:
        queued: Messages in the queues.
        results: Of jobs, that the broker still has.
        letters: That it keeps of messages which nobody could do.
        accounts: Of the workers.
    """

    queued: int = 0
    results: int = 0
    letters: int = 0
    accounts: Sequence[Account] = ()


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
        ground.say("soak: all has been asked; what is left of it?")
        end = await _end(running)
    return finding(watch.seen, asking.result(), indexing.result(), when, end)


async def _end(running: Crew) -> End:
    """Look once all is asked: what callers gave up in the last moment is dropped in the next one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEFT_S):
            while await left(running.url, *PRIORITIES):  # noqa: ASYNC110 - the broker tells nobody when a queue is empty
                await asyncio.sleep(_LOOK_EVERY_S)
    return End(
        queued=await left(running.url, *PRIORITIES),
        results=await kept(running.url, topology.RESULTS_STREAM),
        letters=await kept(running.url, topology.DEAD_STREAM),
        accounts=await accounts(running.url, running.workers),
    )


async def _warm_up(ground: Ground, url: str) -> None:
    async with await Client.connect(url) as client:
        for (text,) in ground.short()[:20]:
            await client.embed(text)


def finding(seen: Mapping[str, Seen], ran: Mapping[str, Ran], done: Jobs, when: When, end: End) -> Finding:
    """What it comes to.

    Args:
        seen: Samples of each process.
        ran: What came of each kind of calls.
        done: What came of the jobs.
        when: The load was there.
        end: What there was after it.
    """
    memory = {name: _slope(each, each.mib) for name, each in seen.items()}
    tallies = {name: Tally.of(each.calls, each.offered) for name, each in ran.items()}
    drifts = {name: Drift.of(ran[name].calls, when) for name in _PATIENT}
    ledgers = [account.ledger for account in end.accounts]
    ledger_faults = [fault for account in end.accounts for fault in account.faults]
    return Finding(
        part="soak",
        what=f"{when.seconds / 60:g} minutes of queries, passages, large and hurried calls, HTTP and bulk jobs",
        figures=[
            *(Figure(what=f"{name}, memory", value=each.level, unit="MiB") for name, each in memory.items()),
            *(Figure(what=f"{name}, memory", value=each.per_hour, unit="MiB/h") for name, each in memory.items()),
            *(Figure(what=f"{name}, descriptors", value=each.descriptors[-1]) for name, each in seen.items()),
            *(Figure(what=f"{name}, series", value=each.series[-1]) for name, each in seen.items() if each.series),
            *(Figure(what=f"{name} answered", value=each.answered, unit="calls") for name, each in tallies.items()),
            *_thirds("queries", ran["queries"].calls, when),
            *_thirds("http", ran["http"].calls, when),
            *(
                Figure(what=f"{name}, drift of {percentile}", value=slope.per_hour, unit="ms/h")
                for name, drift in drifts.items()
                for percentile, slope in drift.slopes().items()
            ),
            Figure(what="messages that workers were handed", value=sum(each.delivered for each in ledgers)),
            Figure(what="messages that they settled", value=sum(each.settled for each in ledgers)),
            Figure(what="of these given back", value=sum(each.given_back for each in ledgers)),
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
            _none("messages left in queues", end.queued),
            _none("results of jobs left", end.results),
            _none("dead letters", end.letters),
            _none(
                "messages handed to workers and not settled",
                sum(abs(each.delivered - each.settled) for each in ledgers),
            ),
            _none("messages that workers abandoned", sum(each.abandoned for each in ledgers)),
            _none("bytes held by workers", sum(sum(each.held_bytes.values()) for each in ledgers)),
            _none("bytes of credit left with the broker", sum(sum(each.credit_bytes.values()) for each in ledgers)),
            _none("faults in workers' ledgers", len(ledger_faults)),
            *(verdict for name, drift in drifts.items() for verdict in _steady(name, drift)),
            *(
                Verdict(what=f"{name} answered", found=tallies[name].success, limit=0.999, sense="at least")
                for name in _PATIENT
            ),
        ],
        series={
            **{f"MiB of {name}": [round(value, 2) for value in each.mib] for name, each in seen.items()},
            **{f"p50 of {name}, ms": [round(value, 2) for value in each.p50_ms] for name, each in drifts.items()},
            **{f"p95 of {name}, ms": [round(value, 2) for value in each.p95_ms] for name, each in drifts.items()},
        },
        notes=[*done.faults, *ledger_faults, *(error for each in ran.values() for error in each.errors)],
    )


def _slope(seen: Seen, values: list[float]) -> Slope:
    counted = settled(values)
    return Slope.of(seen.at_s[counted], values[counted])


def _flat(what: str, slope: Slope) -> Verdict:
    return Verdict(what=f"growth of {what}, in noise", found=slope.over_noise, limit=1, sense="at most")


def _steady(what: str, drift: Drift) -> list[Verdict]:
    """One for each percentile; of what nobody answered, there is no number, and it holds none."""
    slopes = drift.slopes()
    return [
        Verdict(
            what=f"drift of {percentile} of {what}, in noise",
            found=slopes[percentile].over_noise if slopes else math.nan,
            limit=1,
            sense="at most",
        )
        for percentile in ("p50", "p95")
    ]


def _none(what: str, found: float) -> Verdict:
    return Verdict(what=what, found=found, limit=0, sense="at most")


def _thirds(what: str, calls: Sequence[Call], when: When) -> list[Figure]:
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
