"""Where a call of the whole path spends its time: tokenise, publish, queue, run, reply.

It knows a fleet that runs, and what a reply says of its queue and its step, which is taken as it is. Tokenising and
publishing are measured on their own, on the same texts, since a client says nothing of them.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from headrace import Client
from headrace_contracts import connection, limits
from nats.aio.client import Client as NatsClient
from result import Parts
from timing import repeat
from tokenizers import Tokenizer

_SUBJECT, _NATS_STREAM = "bench.publish", "BENCH_PUBLISH"
_ALONE_S = 0.5  # for what is measured on its own
# A message of this many bytes more than its token ids stands for a chunk with its headers.
_AROUND_BYTES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One line of the breakdown.

    Attributes:
        case: For people.
        texts: Taken in turn, one a call.
        tokens: Of a text, in the mean.
        clients: Calls at a time.
    """

    case: str
    texts: Sequence[str]
    tokens: float
    clients: int


async def measure(
    url: str, model: str, tokenizer: Tokenizer, stretches: Sequence[Stretch], seconds: float
) -> list[Parts]:
    """Measure each stretch through a running fleet.

    Args:
        url: Of its nats-server.
        model: Name of the model.
        tokenizer: Of the model.
        stretches: What to measure.
        seconds: Of each, after a warm-up.
    """
    nats, _ = await connection.connect(url, name="bench", inbox="_INBOX.bench", timeout_s=5)
    try:
        async with await Client.connect(url) as client:
            found = []
            for stretch in stretches:
                publish_ms = await _publish_ms(nats, int(stretch.tokens))
                found.append(
                    await _parts(client, model, stretch, _tokenise_ms(tokenizer, stretch), publish_ms, seconds)
                )
            return found
    finally:
        await nats.close()


async def _parts(
    client: Client, model: str, stretch: Stretch, tokenise_ms: float, publish_ms: float, seconds: float
) -> Parts:
    await _call(client, model, stretch, seconds / 10)
    total, queue, run = np.array(await _call(client, model, stretch, seconds)).T
    return Parts(
        case=stretch.case,
        clients=stretch.clients,
        total=float(np.median(total)),
        tokenise=tokenise_ms,
        publish=publish_ms,
        queue=float(np.median(queue)),
        run=float(np.median(run)),
        reply=max(0.0, float(np.median(total - queue - run)) - tokenise_ms - publish_ms),
    )


async def _call(client: Client, model: str, stretch: Stretch, seconds: float) -> list[tuple[float, float, float]]:
    """(total, queue, run) in ms of each call."""
    turn = cycle(stretch.texts)
    until = time.perf_counter() + seconds
    async with asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(_caller(client, model, turn, until)) for _ in range(stretch.clients)]
    return [call for caller in callers for call in caller.result()]


async def _caller(client: Client, model: str, texts: Iterator[str], until: float) -> list[tuple[float, float, float]]:
    calls = []
    while True:
        started = time.perf_counter()
        usage = (await client.embed(next(texts), model=model)).usage
        ended = time.perf_counter()
        calls.append(((ended - started) * 1000, usage.queue_ms, usage.run_ms))
        if ended >= until:
            return calls


def _tokenise_ms(tokenizer: Tokenizer, stretch: Stretch) -> float:
    turn = cycle(stretch.texts)
    return repeat(lambda: tokenizer.encode_batch_fast([next(turn)]), _ALONE_S).p50_ms


async def _publish_ms(nats: NatsClient, tokens: int) -> float:
    """From a publish to its PubAck, into a NATS stream in memory as the online ones are."""
    jetstream = nats.jetstream()
    await jetstream.add_stream(name=_NATS_STREAM, subjects=[_SUBJECT], storage="memory", max_msgs=100)
    body = bytes(tokens * limits.TOKEN_BYTES + _AROUND_BYTES)
    durations = []
    until = time.perf_counter() + _ALONE_S
    try:
        while time.perf_counter() < until:
            started = time.perf_counter()
            await jetstream.publish(_SUBJECT, body)
            durations.append((time.perf_counter() - started) * 1000)
    finally:
        await jetstream.delete_stream(_NATS_STREAM)
    return float(np.median(durations))
