"""`python -m economics.client`: a process that is nothing but a client, so that its processor time is the client's.

It knows the client below its tokenizer: calls begin with token ids. It knows the other processes by their ids alone.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from economics import processes
from economics.meter import Reading
from headrace import Client
from headrace.options import EmbedOptions
from headrace.published import Model
from headrace.tokens import Tokenized
from headrace_contracts import Priority
from headrace_workers import event_loop

_WARM_UP = 0.2  # of the time that is measured
_SOME_ID = 1000  # any vocabulary has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to put on the path.

    Attributes:
        sequences: Of a chunk.
        length: Tokens of each.
        chunks: Of a call. More than one only if `sequences` are as many as fit into a chunk.
        callers: Each with one call at a time.
        priority: The class.
        seconds: How long.
    """

    sequences: int
    length: int
    chunks: int
    callers: int
    priority: Priority
    seconds: float

    @property
    def tokens(self) -> int:
        """Of a chunk."""
        return self.sequences * self.length

    def call(self) -> Tokenized:
        """What a caller has when its texts are tokenised."""
        num = self.sequences * self.chunks
        return Tokenized([np.full(self.length, _SOME_ID, np.uint32)] * num, np.full(num, self.length, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is asked.

    Attributes:
        url: Of the nats-server, where a worker serves one model.
        pids: Of the processes besides this one that are metered, by name.
        loads: To run, one after the other.
    """

    url: str
    pids: Mapping[str, Sequence[int]]
    loads: tuple[Load, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one load.

    Attributes:
        durations_ms: Of the calls, from token ids to rows.
        chunks: That were answered.
        used: Seconds, and processor seconds by name, "client" among them.
    """

    durations_ms: Sequence[float]
    chunks: int
    used: Reading


async def run(plan: Plan) -> list[Ran]:
    """Run all loads through one client."""
    async with await Client.connect(plan.url) as client:
        return [await _run(client, load, plan.pids) for load in plan.loads]


async def _run(client: Client, load: Load, pids: Mapping[str, Sequence[int]]) -> Ran:
    await _keep_calling(client, load, load.seconds * _WARM_UP)
    everyone = {"client": (os.getpid(),), **pids}
    before = Reading.of(everyone)
    durations_ms = await _keep_calling(client, load, load.seconds)
    used = Reading.of(everyone).since(before)
    return Ran(durations_ms=durations_ms, chunks=len(durations_ms) * load.chunks, used=used)


async def _keep_calling(client: Client, load: Load, seconds: float) -> list[float]:
    """Call for so many seconds; every caller finishes the call it has begun."""
    until = time.perf_counter() + seconds
    call, options = load.call(), EmbedOptions(priority=load.priority)
    async with asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(_caller(client, call, options, until)) for _ in range(load.callers)]
    return [duration_ms for caller in callers for duration_ms in caller.result()]


async def _caller(client: Client, call: Tokenized, options: EmbedOptions, until: float) -> list[float]:
    async def tokenized(_: Model) -> Tokenized:
        return call

    durations_ms: list[float] = []
    ended = time.perf_counter()
    while ended < until or not durations_ms:
        started = time.perf_counter()
        gathered = await client._calls.run(None, options, tokenized)  # noqa: SLF001 - a call without its tokenizer
        ended = time.perf_counter()
        if gathered.errors:
            raise RuntimeError(f"the path answered with errors: {gathered.errors}")
        durations_ms.append((ended - started) * 1000)
    return durations_ms


def main() -> None:
    """Do what the standard input asks."""
    with asyncio.Runner(loop_factory=event_loop.factory()) as runner:
        processes.reply(runner.run(run(processes.plan(Plan))))


if __name__ == "__main__":
    main()
