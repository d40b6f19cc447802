"""Whatever a stranger sends, workers serve on, nobody else hears of it, and nothing of it stays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from bulk.oracle import Oracle
from headrace import Client
from headrace_contracts import ModelSpec, subjects
from survival.errand import errand, stop
from survival.forger import Forger
from survival.stranger import Plan, Report, Stranger
from survival.wiretap import tapped

from ..fleet.broker_view import connected, emptied
from ..waiting import until
from .served import NAME, WORKER, Served

TEXTS = [f"a text of somebody, number {number}" for number in range(12)]
_KINDS = 32


async def spec_of(url: str) -> ModelSpec:
    async with await Client.connect(url) as client:
        (spec,) = await client.models()
        return spec


@asynccontextmanager
async def stranger_of(url: str, seed: int) -> AsyncIterator[Stranger]:
    async with connected(url) as connection:
        stranger = Stranger(connection, url, await spec_of(url), seed, [WORKER])
        await stranger.listen()
        yield stranger
        await stranger.close()


async def settled(served: Served) -> None:
    """Nothing waits for a worker any more, whatever it was."""
    spec = await spec_of(served.url)
    streams = [subjects.online_stream(NAME, *queue) for queue in spec.online_queues] + [subjects.batch_stream(NAME)]
    async with connected(served.url) as connection:
        for stream in streams:
            await emptied(connection, stream)


@pytest.mark.parametrize("seed", range(3))
async def test_a_worker_bears_all_that_a_stranger_sends(served: Served, oracle: Oracle, seed: int) -> None:
    async with (
        tapped(served.url) as tap,
        stranger_of(served.url, seed) as stranger,
        await Client.connect(served.url) as client,
    ):
        calls = []
        for text in TEXTS:
            for kind in stranger.forger.kinds:
                for forged in stranger.forger.make(kind):
                    await stranger.send(forged)
            calls.append(asyncio.create_task(client.embed(text, timeout=20)))
        vectors = await asyncio.gather(*calls)
        await settled(served)
        assert (np.stack(vectors) == oracle.vectors(TEXTS)).all()
        assert tap.violations() == []
        assert tap.num_judged > len(TEXTS)
    report = stranger.report
    assert len(report.sent) == len(stranger.forger.kinds) == _KINDS
    assert report.told["ok"]
    # What it was told names what is wrong with what it sent, and never a fault of a worker's.
    assert set(report.told) <= {"ok", "invalid", "too_long", "model_mismatch", "expired"}
    assert report.unreadable == 0
    assert served.worker.poll() is None
    log = served.log.read_text()
    assert "This is a bug" not in log
    assert "Traceback" not in log


async def test_a_stranger_is_a_process_that_says_what_it_sent(served: Served, tmp_path: Path) -> None:
    plan = Plan(url=served.url, model=NAME, report=str(tmp_path / "report.json"), seed=9, rate=500.0, messages=60)
    with errand("survival.stranger", plan) as process:
        assert await asyncio.to_thread(process.wait) == 0
    report = Report.read(tmp_path / "report.json")
    assert sum(report.sent.values()) + report.lost == 60
    await settled(served)


async def test_a_stranger_stops_when_it_is_told_to(served: Served, tmp_path: Path) -> None:
    plan = Plan(url=served.url, model=NAME, report=str(tmp_path / "report.json"), seed=8, rate=200.0)
    async with tapped(served.url) as tap:
        with errand("survival.stranger", plan) as process:
            await until(lambda: tap.num_chunks > 10, "it has sent something")
            assert await asyncio.to_thread(stop, process) == 0
    assert Report.read(tmp_path / "report.json").sent
    await settled(served)


async def test_forgeries_are_the_same_for_a_seed(served: Served) -> None:
    spec = await spec_of(served.url)
    first, again, other = (Forger(spec, "hr.inbox.x.y", seed).endless() for seed in (1, 1, 2))
    some = [next(first) for _ in range(100)]
    assert some == [next(again) for _ in range(100)]
    assert some != [next(other) for _ in range(100)]
