"""An engine falls ill when a file says so, and workers and callers go through with it as they would with a device."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from bulk.oracle import Oracle
from economics import processes
from headrace import Client, ItemsFailed, local
from headrace_contracts import ErrorCode
from headrace_engine import pack
from survival.ailing_engine import AilingEngine
from survival.ailment import Ailment, inflict
from survival.checker import check_ledger
from survival.ledger import Ledger

from ..fleet.harness import brisk, running
from ..waiting import until
from .served import MODEL

IDS = np.arange(5, dtype=np.uint32)


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    return tmp_path / "ailments.json"


@pytest.fixture
def engine(chart: Path) -> AilingEngine:
    return AilingEngine.load(MODEL, None, chart)


def rows(engine: AilingEngine, length: int = 5) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return engine.step(pack([IDS[:length]])).numpy()


def test_an_engine_without_a_chart_is_well() -> None:
    assert np.isfinite(rows(AilingEngine.load(MODEL, None, None))).all()


def test_an_engine_fails_as_often_as_it_is_told_and_not_where_it_is_tried_out(
    engine: AilingEngine, chart: Path
) -> None:
    good = rows(engine)
    inflict(chart, Ailment(kind="fails", steps=2))
    with pytest.raises(RuntimeError, match="CUDA"):
        rows(engine)
    rows(engine, length=1)
    with pytest.raises(RuntimeError, match="CUDA"):
        rows(engine)
    assert (rows(engine) == good).all()


def test_the_same_ailment_once_more_is_another_one(engine: AilingEngine, chart: Path) -> None:
    for _ in range(3):
        inflict(chart, Ailment(kind="not a number"))
        assert np.isnan(rows(engine)).all()
        assert np.isfinite(rows(engine)).all()


def test_a_lost_device_fails_on_everything_until_it_is_well(engine: AilingEngine, chart: Path) -> None:
    inflict(chart, Ailment(kind="lost"))
    for length in (5, 1, 5):
        with pytest.raises(RuntimeError, match="bus"):
            rows(engine, length)
    inflict(chart, Ailment())
    rows(engine)


async def test_a_step_that_fails_once_is_halved_and_all_are_answered(
    nats_server: local.Server, engine: AilingEngine, chart: Path, oracle: Oracle
) -> None:
    texts = [f"number {number}" for number in range(8)]
    async with running(engine, brisk(nats_server.url)) as worker, await Client.connect(nats_server.url) as client:
        # The first step is of one chunk, and hangs, so that the others are together in the second.
        inflict(chart, Ailment(kind="hangs", seconds=60))
        first = asyncio.create_task(client.embed("the first one"))
        await until(lambda: worker.worker.lane.num_in_flight == 1, "the device hangs")
        calls = [asyncio.create_task(client.embed(text)) for text in texts]
        await until(lambda: worker.worker.num_queued("online") == len(texts), "all others wait")
        inflict(chart, Ailment(kind="fails"))
        vectors = await asyncio.gather(first, *calls)
        assert worker.counters.failed_steps == 1
    assert (np.stack(vectors) == oracle.vectors(["the first one", *texts])).all()
    assert worker.counters.refused == 0


async def test_a_chunk_alone_on_which_a_step_fails_once_is_answered_and_one_that_fails_twice_is_not(
    nats_server: local.Server, engine: AilingEngine, chart: Path, oracle: Oracle
) -> None:
    async with running(engine, brisk(nats_server.url)) as worker, await Client.connect(nats_server.url) as client:
        inflict(chart, Ailment(kind="fails"))
        assert (await client.embed("a moment") == oracle.vectors(["a moment"])[0]).all()
        assert (worker.counters.failed_steps, worker.counters.refused) == (1, 0)
        inflict(chart, Ailment(kind="fails", steps=2))
        with pytest.raises(ItemsFailed, match="internal"):
            await client.embed("again and again")
        assert (worker.counters.failed_steps, worker.counters.dead_lettered) == (3, 1)


async def test_a_row_that_is_no_number_is_told_for_its_text(
    nats_server: local.Server, engine: AilingEngine, chart: Path
) -> None:
    async with running(engine, brisk(nats_server.url)), await Client.connect(nats_server.url) as client:
        inflict(chart, Ailment(kind="not a number"))
        with pytest.raises(ItemsFailed) as failed:
            await client.embed("a text")
        assert failed.value.errors[0].code == ErrorCode.NON_FINITE
        assert np.isfinite(await client.embed("a text")).all()


async def test_a_worker_that_loses_its_device_ends_and_another_one_answers(
    nats_server: local.Server, tmp_path: Path, oracle: Oracle
) -> None:
    charts = [tmp_path / f"{name}.json" for name in "ab"]
    ledgers = [tmp_path / f"{name}-ledger.json" for name in "ab"]
    inflict(charts[0], Ailment(kind="lost"))
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        first, _ = (
            stack.enter_context(
                processes.worker(
                    "survival.worker",
                    MODEL,
                    nats_server.url,
                    *("--worker", name, "--ailments", str(chart), "--ledger", str(ledger)),
                    log=log,
                )
            )
            for name, chart, ledger in zip("ab", charts, ledgers, strict=True)
        )
        async with await Client.connect(nats_server.url) as client:
            texts = [f"number {number}" for number in range(40)]
            calls = [client.embed(text, timeout=20) for text in texts]
            vectors = await asyncio.gather(*calls)
        assert (np.stack(vectors) == oracle.vectors(texts)).all()
        assert await asyncio.to_thread(first.wait) == 1
    lost, kept = map(Ledger.read, ledgers)
    assert "the device fails" in lost.failure
    assert lost.answered == 0
    assert lost.given_back == lost.delivered > 0
    assert (kept.failure, kept.answered) == ("", 40)
    assert check_ledger(lost) == check_ledger(kept) == []
