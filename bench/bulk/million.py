"""A long job with workers that answer at once: each row once, memory flat, the broker's disk bounded; and again.

The second run has nothing to do but to see that, for no text has changed.
"""

import asyncio
from pathlib import Path

from headrace_contracts import subjects
from headrace_contracts.topology import results_stream
from online.finding import Figure, Finding, Verdict
from online.memory import thirds

from bulk import checker
from bulk.broker import Broker
from bulk.checker import Checked
from bulk.corpus import Corpus
from bulk.footprint import BROKER, PRODUCER, WORKER, Footprint
from bulk.ground import Ground
from bulk.oracle import Oracle
from bulk.reindex import Reindex, command

_NAME, _FIRST, _AGAIN = "million", "first", "again"
# Of a NATS stream on disk beside its messages: blocks that are half empty, indices.
_DISK_SHARE, _DISK_MIB = 1.1, 64.0
# Allocators of a dozen threads take some more from the system for the first half million documents, and then no more:
# what is lost of each document, be it 100 bytes, would be more than this.
_MEMORY_SHARE, _MEMORY_MIB = 1.05, 64.0


async def measure(ground: Ground) -> Finding:
    """Run the job twice, under two names."""
    amount = ground.amount.million
    documents = ground.documents(Corpus(documents=amount, seed=ground.first_seed, shards=8, bad=0.0001), _NAME)
    sink = ground.work / _NAME / "sink"
    with ground.broker(_NAME) as broker, ground.stand_ins(_NAME, broker.url) as crew:
        log = ground.work / _NAME / "producer.log"

        def job(name: str) -> Reindex:
            what = command(documents, sink, url=broker.url, model=ground.name, job=name, options=ground.options)
            return Reindex(*what, log=log)

        first, again = job(_FIRST), job(_AGAIN)
        footprint = Footprint(lambda: {PRODUCER: first.pid, BROKER: broker.pid, WORKER: crew.pids[0]}, broker.store)
        ground.say(f"{_NAME}: embedding them")
        async with footprint.watched():
            await first.run()
        limits_mib = await _limits_mib(broker, ground.name)
        ground.say(f"{_NAME}: checking the sink")
        checked = await _checked(ground, documents, sink, _FIRST)
        ground.say(f"{_NAME}: again, with nothing that has changed")
        await again.run()
        rechecked = await _checked(ground, documents, sink, _AGAIN)
    return finding(first, again, checked, rechecked, footprint, limits_mib)


async def _limits_mib(broker: Broker, model: str) -> float:
    """What the broker may hold of jobs."""
    streams = (subjects.batch_stream(model), results_stream().name)
    return sum([await broker.limit(stream) for stream in streams]) / 2**20


async def _checked(ground: Ground, documents: Path, sink: Path, job: str) -> Checked:
    return await asyncio.to_thread(checker.check, documents, sink, job, Oracle(ground.model).vectors)


def finding(
    first: Reindex,
    again: Reindex,
    checked: Checked,
    rechecked: Checked,
    footprint: Footprint,
    limits_mib: float,
) -> Finding:
    """What it comes to."""
    last = first.lines[-1]
    seconds = first.ended_s - first.began_s
    samples = footprint.mib
    early, late = thirds(samples[PRODUCER])
    return Finding(
        part=_NAME,
        what=f"{checked.expected + checked.bad:,} documents through a worker that answers at once",
        figures=[
            Figure(what="from start to end", value=seconds, unit="s"),
            Figure(what="rows", value=last["rows_done"] / seconds, unit="rows/s"),
            Figure(what="tokens", value=last["tokens_done"] / seconds, unit="tokens/s"),
            Figure(what="from start to end, again", value=again.ended_s - again.began_s, unit="s"),
            Figure(what="event loop held for, at most", value=first.hold["longest_hold_ms"], unit="ms"),
            *(
                Figure(what=f"memory of {name}, most", value=max(samples[name]), unit="MiB")
                for name in (PRODUCER, BROKER, WORKER)
            ),
            Figure(what="disk of nats-server, most", value=max(samples["disk"]), unit="MiB"),
        ],
        verdicts=[
            *sound(checked),
            Verdict(
                what="memory of producer, last third (as the first, and 5 % + 64 MiB)",
                found=late,
                limit=early * _MEMORY_SHARE + _MEMORY_MIB,
                sense="at most",
                unit="MiB",
            ),
            Verdict(
                what="disk of nats-server (what its streams may hold)",
                found=max(samples["disk"]),
                limit=limits_mib * _DISK_SHARE + _DISK_MIB,
                sense="at most",
                unit="MiB",
            ),
            Verdict(
                what="rows that were unchanged, again",
                found=again.lines[-1]["rows_unchanged"],
                limit=checked.expected,
                sense="at least",
            ),
            Verdict(what="tokens embedded, again", found=again.lines[-1]["tokens_done"], limit=0, sense="at most"),
            Verdict(what="sink as it was, again", found=float(rechecked.is_whole), limit=1, sense="at least"),
        ],
        series={f"MiB of {name}": values for name, values in samples.items()},
        notes=[*checked.examples, *rechecked.examples],
    )


def sound(checked: Checked) -> list[Verdict]:
    """Nothing is lost, nothing is doubled, each vector is its text's."""
    kinds = ("missing", "doubled", "strange", "wrong", "unreported", "overreported")
    return [Verdict(what=f"rows {kind}", found=getattr(checked, kind), limit=0, sense="at most") for kind in kinds]
