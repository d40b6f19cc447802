"""How fast a producer is where workers are no limit, and how long its event loop is held up.

All processes share the cores, so what comes out is less than a producer with cores of its own would do; what it cost
it in processor time says how much that is. So it is with the event loop: by the clock it is held up by whoever has the
core; what it does itself is judged.
"""

from online.finding import Figure, Finding, Verdict

from bulk.corpus import Corpus
from bulk.ground import Ground
from bulk.real import alone
from bulk.reindex import Reindex, command

_NAME = "throughput"
_TIMES = 5.0
_HOLD_MS = 50.0


async def measure(ground: Ground) -> Finding:
    """Run the engine alone, and a job with an engine that answers at once."""
    documents = ground.documents(Corpus(documents=ground.amount.throughput, seed=ground.first_seed), _NAME)
    engine = await alone(ground, documents)
    with ground.broker(_NAME) as broker, ground.stand_ins(_NAME, broker.url):
        sink = ground.work / _NAME / "sink"
        what = command(documents, sink, url=broker.url, model=ground.name, job=_NAME, options=ground.options)
        job = Reindex(*what, log=ground.work / _NAME / "producer.log")
        ground.say(f"{_NAME}: embedding them")
        await job.run()
    return finding(job, engine)


def finding(job: Reindex, engine: float) -> Finding:
    """What it comes to."""
    last = job.lines[-1]
    rate = last["tokens_done"] / last["elapsed_s"]
    return Finding(
        part=_NAME,
        what=f"{last['rows_done']:,} documents through a worker that answers at once",
        figures=[
            Figure(what="producer", value=rate, unit="tokens/s"),
            Figure(what="producer", value=last["rows_done"] / last["elapsed_s"], unit="rows/s"),
            Figure(
                what="producer, of its processor time", value=last["tokens_done"] / job.hold["cpu_s"], unit="tokens/s"
            ),
            Figure(what="engine alone", value=engine, unit="tokens/s"),
            Figure(what="event loop held for, at most", value=job.hold["longest_hold_ms"], unit="ms"),
            Figure(what="held for over 50 ms", value=job.hold["holds_over_50_ms"], unit="times"),
        ],
        verdicts=[
            Verdict(
                what="tokens a second of the producer, in those of the engine alone",
                found=rate / engine,
                limit=_TIMES,
                sense="at least",
            ),
            Verdict(
                what="event loop held for, at most, of that thread's processor time",
                found=job.hold["longest_hold_cpu_ms"],
                limit=_HOLD_MS,
                sense="at most",
                unit="ms",
            ),
        ],
        notes=[f"held the longest by {job.hold['longest_hold_of']}"],
    )
