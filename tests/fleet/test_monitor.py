"""What a worker tells of itself while it works: against a real nats-server, in this process and in one of its own."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from headrace import Client, local
from headrace_contracts import subjects
from headrace_contracts.address import Address
from headrace_contracts.api import api
from headrace_engine import Engine
from headrace_workers import WorkerConfig
from headrace_workers.health import Limits
from headrace_workers.monitor import monitored
from headrace_workers.pulse import Pulse
from headrace_workers.worker import Worker
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ..conftest import DEMO_MODEL
from ..waiting import until
from .broker_view import connected
from .harness import Running, WatchedEngine, brisk, running

TRACE = "0af7651916cd43dd8448eb211c80319c"
# Signs are taken often, so that tests need not wait; how old they may be is far from what a busy machine needs.
OFTEN: dict[str, float] = {"look_every_s": 0.02, "ask_every_s": 0.05, "probe_every_s": 0.05}


class Watch:
    """A worker of this process and its monitor."""

    def __init__(self, running: Running, pulse: Pulse, http: httpx.AsyncClient) -> None:
        self.running = running
        self.pulse = pulse
        self._http = http

    async def health(self, check: str) -> str:
        """The reason, or ok."""
        body = (await self._http.get(f"/health/{check}")).json()
        return str(body.get("reason", body["status"]))

    async def until(self, check: str, wanted: str) -> None:
        """Wait for a reason that looks like this."""
        async with asyncio.timeout(20):
            while not re.search(wanted, await self.health(check)):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)  # without a pause it would get no core to change in

    async def series(self) -> list[Sample]:
        page = await self._http.get("/metrics", headers={"accept": "application/openmetrics-text"})
        families = text_string_to_metric_families(page.text)  # type: ignore[no-untyped-call] # it has no types
        return [sample for family in families for sample in family.samples]

    async def value(self, name: str, **labels: str) -> float:
        (found,) = [
            sample.value
            for sample in await self.series()
            if sample.name == f"headrace_worker_{name}" and labels.items() <= sample.labels.items()
        ]
        return float(found)


@asynccontextmanager
async def watched(engine: WatchedEngine, at: str | WorkerConfig, **limits: Any) -> AsyncIterator[Watch]:
    config = brisk(at) if isinstance(at, str) else at
    pulse = Pulse(Limits(**{**OFTEN, **limits}))
    taking = asyncio.create_task(pulse.run())
    try:
        with monitored(Address("127.0.0.1", 0), "mill", pulse) as address:
            async with (
                running(engine, config) as worker,
                httpx.AsyncClient(base_url=f"http://{address}", timeout=20) as http,
            ):
                pulse.begin(worker.worker)
                yield Watch(worker, pulse, http)
    finally:
        taking.cancel()


async def test_what_a_worker_did_is_told_by_class_task_and_outcome(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with watched(WatchedEngine(minilm), nats_server.url) as watch:
        usage = (await client.embed(["a mill", "a race"], traceparent=f"00-{TRACE}-b7ad6b7169203331-01")).usage
        await client.embed(["a wheel"] * 3, priority="batch")
        await until(lambda: watch.running.counters.answered == 2, "both are answered")
        found = watch.value
        for priority, sequences in (("online", 2), ("batch", 3)):
            mine = {"class": priority, "task": "embed", "outcome": "ok"}
            assert await found("chunks_total", **mine) == 1
            assert await found("sequences_total", **mine) == sequences
            assert await found("request_seconds_count", **{"class": priority}) == 1
            for stage in ("queue", "pack", "run", "reply"):
                assert await found("stage_seconds_count", **{"class": priority, "stage": stage}) == 1
        for direction in ("in", "out"):
            assert await found(f"tokens_{direction}_total", **{"class": "online"}) == usage.tokens
        (info,) = [sample.labels for sample in await watch.series() if sample.name == "headrace_worker_info"]
        assert info["fingerprint"] == watch.running.worker.spec.fingerprint
        assert (info["device"], info["dim"]) == ("cpu", "384")
        traces = [sample.exemplar.labels for sample in await watch.series() if sample.exemplar]
        assert traces == [{"trace_id": TRACE}], "that of the one request that has one"


async def test_what_is_in_hand_is_told_while_it_waits(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with watched(engine, nats_server.url, probe_every_s=1000.0) as watch:
        calls = [asyncio.create_task(client.embed("a mill"))]
        await until(lambda: len(engine.steps) == 1, "the first runs")
        calls += [asyncio.create_task(client.embed(f"a mill {n}")) for n in range(2)]
        await until(lambda: watch.pulse.reading.classes["online"].queue_chunks == 2, "two wait")
        worker = watch.running
        assert await watch.value("steps_in_flight") == 1
        assert await watch.value("queue_chunks", **{"class": "online"}) == 2
        assert await watch.value("queue_oldest_seconds", **{"class": "online"}) > 0
        assert await watch.value("held_tokens") == worker.counters.held_tokens > 0
        assert (
            0
            < await watch.value("held_bytes", **{"class": "online"})
            < await watch.value("budget_bytes", **{"class": "online"})
        )
        engine.release()
        await asyncio.gather(*calls)
        await until(lambda: watch.pulse.reading.classes["online"].held_bytes == 0, "nothing is in hand")
        assert await watch.value("queue_chunks", **{"class": "online"}) == 0


async def test_a_device_that_hangs_makes_a_worker_dead_until_it_goes_on(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with watched(engine, nats_server.url, step_s=0.2) as watch:
        await watch.until("ready", "^ok$")
        call = asyncio.create_task(client.embed("a mill"))
        await watch.until("live", "the device has had one step for .* more than 0.2 s")
        assert "the device has had one step" in await watch.health("ready")
        assert await watch.value("ready") == 0
        engine.release()
        await call
        await watch.until("live", "^ok$")
        await watch.until("ready", "^ok$")


async def test_an_idle_worker_stays_ready_since_its_device_is_probed(nats_server: local.Server, minilm: Engine) -> None:
    engine = WatchedEngine(minilm)
    async with watched(engine, nats_server.url) as watch:
        await watch.until("ready", "^ok$")
        first_s = watch.pulse.vitals().ran_s
        await until(lambda: engine.num_probes >= 5, "the device is probed again and again")
        last_s = watch.pulse.vitals().ran_s
        assert await watch.health("ready") == "ok"
        assert first_s is not None
        assert last_s is not None
        assert last_s > first_s
        assert (watch.running.counters.steps, watch.running.counters.delivered) == (0, 0), "probes are no work"


async def test_a_sick_device_makes_an_idle_worker_unready_and_says_why(
    nats_server: local.Server, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm)
    async with watched(engine, nats_server.url) as watch:
        await watch.until("ready", "^ok$")
        engine.is_sick = True
        await watch.until("ready", r"the last \d+ forward passes failed: .*the device fell off the bus")
        assert await watch.health("live") == "ok", "a restart is for who looks at readiness to decide"
        engine.is_sick = False
        await watch.until("ready", "^ok$")


async def test_a_sign_that_cannot_be_taken_ends_no_other(
    nats_server: local.Server, minilm: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("no reading")

    async with watched(WatchedEngine(minilm), nats_server.url, turn_s=1.0) as watch:
        await watch.until("ready", "^ok$")
        with monkeypatch.context() as patched:
            patched.setattr(Worker, "reading", fails)
            await until(lambda: "a sign of life cannot be taken" in caplog.text, "it is told")
        seen_s = watch.pulse.vitals().turned_s
        await until(lambda: watch.pulse.vitals().turned_s > seen_s, "the loop is seen to turn all the same")
        assert await watch.health("ready") == "ok"


async def test_a_nats_server_that_stands_still_makes_a_worker_unready_though_its_connection_stands(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with watched(WatchedEngine(minilm), nats_server.url, broker_s=1.0) as watch:
        await watch.until("ready", "^ok$")
        nats_server.process.send_signal(signal.SIGSTOP)
        try:
            await watch.until("ready", "nats-server has not answered for")
            assert await watch.value("connected") == 1
        finally:
            nats_server.process.send_signal(signal.SIGCONT)
        await watch.until("ready", "^ok$")


async def test_a_worker_that_can_pull_no_online_work_is_unready_until_it_can(
    nats_server: local.Server, minilm: Engine
) -> None:
    config = brisk(nats_server.url, queues=1)
    async with watched(WatchedEngine(minilm), config) as watch, connected(nats_server.url) as broker:
        await watch.until("ready", "^ok$")
        model = watch.running.worker.spec.name
        foreign: object = None
        # Another NATS stream is to take the subject before the worker hears that its own is gone and makes it anew.
        while not isinstance(foreign, dict):
            _, foreign = await asyncio.gather(
                api(broker, f"STREAM.DELETE.{subjects.online_stream(model, 0, 0)}"),
                api(broker, "STREAM.CREATE.FOREIGN", {"name": "FOREIGN", "subjects": [subjects.online(model, 0, 0)]}),
                return_exceptions=True,
            )
        await watch.until("ready", "^no online work can be pulled: .*it cannot be provided")
        assert await watch.health("live") == "ok"
        await api(broker, "STREAM.DELETE.FOREIGN")
        await watch.until("ready", "^ok$")


async def test_a_drained_worker_is_unready_lives_on_and_is_ready_again_when_it_resumes(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with watched(WatchedEngine(minilm), nats_server.url) as watch:
        await watch.until("ready", "^ok$")
        watch.running.worker.drain()
        assert await watch.health("ready") in {"it drains", "it is drained"}
        await watch.running.worker.drained()
        assert await watch.health("ready") == "it is drained"
        assert await watch.health("live") == "ok"
        assert await watch.value("draining") == 1
        watch.running.worker.resume()
        await watch.until("ready", "^ok$")


def health(url: str, check: str) -> str | None:
    """What it says: ok, the reason, or None where nobody answers any more."""
    try:
        body = httpx.get(f"{url}/health/{check}", timeout=20).json()
    except httpx.TransportError:
        return None
    return str(body.get("reason", body["status"]))


async def test_a_worker_process_is_ready_while_nats_server_answers_and_until_it_is_told_to_stop(
    tmp_path: Path,
) -> None:
    log, store = tmp_path / "worker.log", tmp_path / "store"
    with local.server(store) as server:
        flags = ("--monitor", "127.0.0.1:0", "--threads", "1")
        with local.worker(DEMO_MODEL, server.url, *flags, log=log) as worker:
            found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
            assert found is not None
            url = found[0]
            assert health(url, "startup") == "ok"
            await until(lambda: health(url, "ready") == "ok", "it is ready")
            server.process.kill()
            await until(lambda: health(url, "ready") == "there is no connection to nats-server", "it is cut off")
            assert health(url, "live") == "ok"
            with local.server(store, port=server.port):
                await until(lambda: health(url, "ready") == "ok", "it is ready again")
                worker.terminate()
                seen: list[str | None] = []
                await until(lambda: _ended(seen, health(url, "ready")), "it ended")
                assert "it drains" in seen
                assert "ok" not in seen[seen.index("it drains") :]
                assert worker.wait(20) == 0


def _ended(seen: list[str | None], answer: str | None) -> bool:
    seen.append(answer)
    return answer is None
