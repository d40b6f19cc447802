"""Prompts that are left out of the pooling: the whole path, against sentence-transformers."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from headrace import Client, ErrorCode, local
from headrace_engine import Engine, EngineConfig

from ..engine.prompted import save_prompted, sentence_transformer, some_texts
from ..waiting import until
from .harness import WatchedEngine, brisk, running

NAME = "prompted"
TEXTS = some_texts(60)
PROMPT_NAMES = ("query", "one word", "blank", "empty", None)
# What sentence-transformers and transformers warn of depends on their versions.
from_elsewhere = pytest.mark.filterwarnings("ignore")


def load(path: Path, *, has_special_tokens: bool = True, pooling: str = "mean") -> Engine:
    save_prompted(path, pooling, has_special_tokens=has_special_tokens)
    return Engine.load(path, EngineConfig(dtype="float32"))


@from_elsewhere
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
async def test_vectors_are_those_of_sentence_transformers_whatever_shares_their_step(
    nats_server: local.Server, client: Client, tmp_path: Path, pooling: str
) -> None:
    engine = WatchedEngine(load(tmp_path, pooling=pooling), held=True)
    oracle = sentence_transformer(tmp_path)
    async with running(engine, brisk(nats_server.url, name=NAME)) as worker:
        first = asyncio.create_task(client.embed("w5"))
        await until(lambda: len(engine.steps) == 1, "the first step runs")
        calls = [asyncio.create_task(client.embed(TEXTS[:20], prompt_name=name)) for name in PROMPT_NAMES]
        await until(lambda: worker.counters.delivered == 1 + len(calls), "all chunks are in hand")
        engine.release()
        await first
        vectors = await asyncio.gather(*calls)
        assert worker.counters.steps < 1 + len(calls)
        (spec,) = await client.models()
    assert not spec.include_prompt
    for name, found in zip(PROMPT_NAMES, vectors, strict=True):
        np.testing.assert_allclose(found, oracle.encode(TEXTS[:20], prompt_name=name), atol=1e-5)


@from_elsewhere
async def test_texts_of_many_chunks_and_cut_ones_leave_the_prompt_out_too(
    nats_server: local.Server, client: Client, tmp_path: Path
) -> None:
    engine = load(tmp_path)
    async with running(engine, brisk(nats_server.url, name=NAME, max_chunk_tokens=128)):
        vectors = await client.embed(TEXTS, prompt_name="query", priority="batch")
    assert vectors.usage.chunks > 4
    assert vectors.truncated
    np.testing.assert_allclose(vectors, sentence_transformer(tmp_path).encode(TEXTS, prompt_name="query"), atol=1e-5)


async def test_a_text_with_nothing_after_its_prompt_fails_alone(
    nats_server: local.Server, client: Client, tmp_path: Path
) -> None:
    engine = load(tmp_path, has_special_tokens=False)
    async with running(engine, brisk(nats_server.url, name=NAME)):
        vectors = await client.embed(["w5", " ", "w6 w7"], prompt_name="query")
    assert {index: error.code for index, error in vectors.errors.items()} == {1: ErrorCode.INVALID}
    assert "3 tokens: opt.skip 3 leaves none of them to pool" in vectors.errors[1].text
    assert np.isfinite(vectors[[0, 2]]).all()
