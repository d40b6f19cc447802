"""Short texts, one a `Client.embed` call: how long a call takes, and where the time goes.

It knows how to keep some callers busy. It does not know how any part of the path works: what a reply says of its queue
and its step is taken as it is.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from headrace import Client
from timing import Spread


@dataclass(frozen=True, slots=True)
class Call:
    """The times of one call.

    Attributes:
        call_ms: From the text to its vector.
        queue_ms: From the broker to the start of the step.
        run_ms: Of the step, which may have run other calls' texts too.
    """

    call_ms: float
    queue_ms: float
    run_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Many calls, some of them at a time.

    Attributes:
        concurrency: Callers, each with one call at a time.
        call: Durations of the calls.
        requests_per_s: Calls that were answered in a second.
        tokenise_ms: Median time to tokenise one text, measured on its own.
        queue_ms: Median wait from the broker to the start of the step.
        run_ms: Median step.
        rest_ms: Median of what is left of a call: publishing, the event loops, the codec, the way back.
        engine_share: Median of the step's part of a call.
    """

    concurrency: int
    call: Spread
    requests_per_s: float
    tokenise_ms: float
    queue_ms: float
    run_ms: float
    rest_ms: float
    engine_share: float

    @classmethod
    async def measure(
        cls, client: Client, texts: Sequence[str], concurrency: int, seconds: float, tokenise_ms: float
    ) -> "Calls":
        """Warm up for a tenth of the time, then measure.

        Args:
            client: Connected.
            texts: Taken in turn.
            concurrency: Callers.
            seconds: How long to measure.
            tokenise_ms: Median time to tokenise one of the texts.
        """
        await _keep_calling(client, texts, concurrency, seconds / 10)
        started = time.perf_counter()
        calls = await _keep_calling(client, texts, concurrency, seconds)
        elapsed = time.perf_counter() - started
        total, queue, run = np.array([(call.call_ms, call.queue_ms, call.run_ms) for call in calls]).T
        return cls(
            concurrency=concurrency,
            call=Spread.of(total.tolist()),
            requests_per_s=len(calls) / elapsed,
            tokenise_ms=tokenise_ms,
            queue_ms=float(np.median(queue)),
            run_ms=float(np.median(run)),
            rest_ms=float(np.median(total - queue - run)) - tokenise_ms,
            engine_share=float(np.median(run / total)),
        )


async def _keep_calling(client: Client, texts: Sequence[str], concurrency: int, seconds: float) -> list[Call]:
    """Call for so many seconds; every caller finishes the call it has begun."""
    turn = cycle(texts)
    until = time.perf_counter() + seconds
    async with asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(_caller(client, turn, until)) for _ in range(concurrency)]
    return [call for caller in callers for call in caller.result()]


async def _caller(client: Client, texts: Iterator[str], until: float) -> list[Call]:
    calls: list[Call] = []
    while True:
        started = time.perf_counter()
        usage = (await client.embed(next(texts))).usage
        ended = time.perf_counter()
        calls.append(Call((ended - started) * 1000, usage.queue_ms, usage.run_ms))
        if ended >= until:
            return calls
