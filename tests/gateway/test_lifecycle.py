"""A gateway from its first request to its last: who goes, who waits, and what happens when it is told to stop."""

import asyncio
import base64
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from headrace import local
from headrace_contracts import Envelope, subjects
from headrace_engine import Engine

from ..conftest import DEMO_MODEL
from ..fleet.broker_view import api, connected, num_messages
from ..fleet.harness import Running as Worker
from ..fleet.harness import WatchedEngine, brisk, running
from ..waiting import until
from .running import Running, gateway, until_metrics_have, until_ready

BODY: dict[str, Any] = {"input": "text", "model": DEMO_MODEL}


@asynccontextmanager
async def held(
    minilm: Engine, nats: str, *flags: str, **settings: Any
) -> AsyncIterator[tuple[WatchedEngine, Worker, Running]]:
    """A worker whose steps wait for the test, and a gateway to it."""
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats, **settings)) as worker:
        process = gateway(nats, *flags)
        served = await asyncio.to_thread(process.__enter__)
        try:
            yield engine, worker, served
        finally:
            engine.release()
            await asyncio.to_thread(process.__exit__, None, None, None)


def headers(**values: str) -> dict[str, str]:
    return {f"X-Headrace-{name.replace('_', '-')}": value for name, value in values.items()}


async def test_work_of_a_client_that_goes_is_dropped_by_the_fleet(nats_server: local.Server, minilm: Engine) -> None:
    async with held(minilm, nats_server.url) as (engine, worker, served), httpx.AsyncClient(timeout=60) as http:
        kept = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY))
        await until(lambda: engine.steps != [], "the device is busy")
        going = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY))
        await until(lambda: worker.counters.delivered == 2, "both are in hand")
        going.cancel()
        await asyncio.wait([going])
        await until(lambda: len(worker.worker._given_up) == 1, "the worker was told")
        engine.release()
        assert (await kept).status_code == 200
        await until(lambda: worker.counters.cancelled == 1, "it was dropped")
        page = (await http.get(f"{served.url}/metrics")).text
    assert 'headrace_gateway_requests_total{class="online",route="/v1/embeddings",status="499"} 1.0' in page


def test_a_client_that_goes_while_it_sends_is_no_failure_of_the_gateway(served: Running, http: httpx.Client) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f'POST /embed HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n{{"inputs": '.encode())
    line = 'headrace_gateway_requests_total{class="online",route="/embed",status="499"} 1.0'
    until_metrics_have(http, line)


@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_what_headers_say_goes_with_the_chunk(nats_server: local.Server, minilm: Engine, priority: str) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = {**headers(Priority=priority, Tenant="search", Timeout_Ms="25000"), "traceparent": trace}
    sent["X-Request-Id"] = "order-7"
    async with (
        held(minilm, nats_server.url) as (engine, worker, served),
        httpx.AsyncClient(timeout=60) as http,
        connected(nats_server.url) as broker,
    ):
        before_ms = time.time() * 1000
        waiting = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY, headers=sent))
        await until(lambda: worker.counters.delivered == 1, "it is in hand")
        names = (await api(broker, "STREAM.NAMES", {"subject": f"hr.{priority}.{DEMO_MODEL}.>"}))["streams"]
        (stream,) = [name for name in names if await num_messages(broker, name)]
        answer = await api(broker, f"STREAM.MSG.GET.{stream}", {"seq": 1})
        envelope = Envelope.from_headers(dict(parsed(answer["message"]["hdrs"])))
        engine.release()
        assert (await waiting).status_code == 200
    assert (envelope.tenant, envelope.traceparent, envelope.request_id) == ("search", trace, "order-7")
    assert envelope.deadline_ms is not None
    assert before_ms + 25_000 <= envelope.deadline_ms <= time.time() * 1000 + 25_000


def parsed(encoded: str) -> list[tuple[str, str]]:
    """NATS headers as the API of JetStream shows them."""
    lines = base64.b64decode(encoded).decode().split("\r\n")[1:]
    return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]


async def test_a_call_ends_at_its_deadline(nats_server: local.Server, minilm: Engine) -> None:
    async with held(minilm, nats_server.url) as (_, worker, served), httpx.AsyncClient(timeout=60) as http:
        reply = await http.post(f"{served.url}/v1/embeddings", json=BODY, headers=headers(Timeout_Ms="300"))
        assert reply.status_code == 504
        assert "no reply in time" in reply.json()["error"]["message"]
        assert worker.counters.delivered == 1


async def test_a_deadline_that_passes_without_nats_says_so(nats_server: local.Server, minilm: Engine) -> None:
    async with held(minilm, nats_server.url) as (engine, _, served), httpx.AsyncClient(timeout=60) as http:
        sent = headers(Timeout_Ms="3000")
        waiting = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY, headers=sent))
        await until(lambda: engine.steps != [], "the device is busy")
        nats_server.process.terminate()
        reply = await waiting
    assert reply.status_code == 503
    assert "the connection to nats-server was lost" in reply.json()["error"]["message"]


async def test_a_call_that_names_no_deadline_has_the_longest_at_most(nats_server: local.Server, minilm: Engine) -> None:
    async with (
        held(minilm, nats_server.url, "--max-timeout", "0.3") as (_, _, served),
        httpx.AsyncClient(timeout=60) as http,
    ):
        for priority in ("online", "batch"):
            sent = headers(Priority=priority)
            assert (await http.post(f"{served.url}/v1/embeddings", json=BODY, headers=sent)).status_code == 504


async def test_one_request_too_many_is_refused_with_when_to_come_again(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with held(minilm, nats_server.url, "--max-concurrent", "2") as (engine, _, served):
        theirs = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
        async with theirs, httpx.AsyncClient(timeout=60) as http:
            waiting = [asyncio.create_task(theirs.embeddings.create(**BODY)) for _ in range(2)]
            await until(lambda: engine.steps != [], "the device is busy")
            await asyncio.to_thread(_in_flight, served.url, 3)  # with the one that asks
            with pytest.raises(openai.RateLimitError, match="serves 2 requests at a time") as caught:
                await theirs.embeddings.create(**BODY)
            assert caught.value.response.headers["Retry-After"] == "1"
            await asyncio.to_thread(until_ready, served.url)
            for path in ("/health/live", "/metrics"):
                assert (await http.get(served.url + path)).status_code == 200
            engine.release()
            assert [len(reply.data) for reply in await asyncio.gather(*waiting)] == [1, 1]
            assert (await theirs.embeddings.create(**BODY)).model == DEMO_MODEL


def _in_flight(url: str, number: int) -> None:
    line = f"headrace_gateway_requests_in_flight {number:.1f}"
    with httpx.Client(base_url=url) as http:
        until_metrics_have(http, line)


async def test_a_full_queue_is_too_many_requests(nats_server: local.Server, minilm: Engine) -> None:
    async with (
        held(minilm, nats_server.url, queues=1) as (engine, _, served),
        connected(nats_server.url) as broker,
        openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as theirs,
        httpx.AsyncClient(timeout=60) as http,
    ):
        stream = subjects.online_stream(DEMO_MODEL, 0, 0)
        found = (await api(broker, f"STREAM.INFO.{stream}"))["config"]
        await api(broker, f"STREAM.UPDATE.{stream}", {**found, "max_msgs": 1})
        waiting = asyncio.create_task(theirs.embeddings.create(**BODY))
        await until(lambda: engine.steps != [], "the device is busy")
        with pytest.raises(openai.RateLimitError, match="the online queue is full") as caught:
            await theirs.embeddings.create(**BODY)
        assert int(caught.value.response.headers["Retry-After"]) >= 1
        reply = await http.post(f"{served.url}/embed", json={"inputs": "text"})
        assert (reply.status_code, reply.json()["error_type"]) == (429, "Overloaded")
        engine.release()
        assert len((await waiting).data) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop_it_refuses_the_new_and_finishes_what_it_has(
    nats_server: local.Server, minilm: Engine, number: signal.Signals
) -> None:
    async with held(minilm, nats_server.url) as (engine, _, served), httpx.AsyncClient(timeout=60) as http:
        waiting = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY))
        await until(lambda: engine.steps != [], "the device is busy")
        served.process.send_signal(number)
        await asyncio.to_thread(_refused, served.url)
        assert served.process.poll() is None
        engine.release()
        assert (await waiting).status_code == 200
        assert await asyncio.to_thread(served.process.wait, 20) == 0


def _refused(url: str) -> None:
    """Return once nobody listens there."""
    host, port = url.removeprefix("http://").split(":")
    while True:
        # A reset is of a connection that was still in the queue of the listener when that was closed.
        with suppress(ConnectionResetError):
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
            except ConnectionRefusedError:
                return


async def test_what_does_not_finish_in_time_is_given_up(nats_server: local.Server, minilm: Engine) -> None:
    async with held(minilm, nats_server.url, "--drain", "0.2") as (engine, worker, served):
        async with httpx.AsyncClient(timeout=60) as http:
            waiting = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY))
            await until(lambda: engine.steps != [], "the device is busy")
            served.process.terminate()
            assert (await waiting).status_code == 503
            assert "this gateway is stopping" in (await waiting).text
            assert await asyncio.to_thread(served.process.wait, 20) == 0
        await until(lambda: len(worker.worker._given_up) == 1, "the worker was told")


async def test_told_to_stop_twice_it_gives_up_what_it_has(nats_server: local.Server, minilm: Engine) -> None:
    async with held(minilm, nats_server.url) as (engine, worker, served), httpx.AsyncClient(timeout=60) as http:
        waiting = asyncio.create_task(http.post(f"{served.url}/v1/embeddings", json=BODY))
        await until(lambda: engine.steps != [], "the device is busy")
        served.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(_refused, served.url)
        served.process.send_signal(signal.SIGINT)
        assert (await waiting).status_code == 503
        assert await asyncio.to_thread(served.process.wait, 20) == 130
        await until(lambda: len(worker.worker._given_up) == 1, "the worker was told")


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace", "gateway", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_port_that_is_taken_is_an_error_that_says_so(served: Running, both: str) -> None:
    ended = run("--port", served.url.rsplit(":", 1)[1], "--nats", both)
    assert ended.returncode == 1
    assert "Address already in use; choose another --port" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "::1"])  # noqa: S104 - on purpose, for a moment
def test_it_listens_on_names_and_addresses(both: str, host: str) -> None:
    with gateway(both, "--host", host) as served:
        url = served.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        until_ready(url)


@pytest.mark.parametrize(
    ("flags", "code", "what"),
    [
        (("--nats", "nats://127.0.0.1:1"), 1, "no nats-server answers"),
        (("--host", "no.such.host.invalid"), 1, "cannot listen on no.such.host.invalid"),
        (("--host", "203.0.113.1"), 1, "cannot listen on 203.0.113.1"),
        (("--api-keys-file", "no/such/file"), 2, "cannot be read"),
        (("--max-items", "0"), 2, "max-items"),
    ],
)
def test_what_is_wrong_at_the_start_is_said_with_an_exit_code(flags: tuple[str, ...], code: int, what: str) -> None:
    ended = run("--port", "0", *flags)
    assert ended.returncode == code
    assert what in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("missing", ["litestar", "granian", "prometheus_client"])
def test_without_the_extra_the_error_names_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = ['gateway']; import headrace.__main__"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"{missing} is not installed: pip install 'headrace[gateway]'" in ended.stderr


def test_it_is_ready_once_a_worker_has_published_its_model(nats_server: local.Server) -> None:
    with gateway(nats_server.url) as served, httpx.Client(base_url=served.url, timeout=60) as http:
        assert http.get("/health/live").status_code == 200
        reply = http.get("/health/ready")
        assert (reply.status_code, reply.json()["reason"]) == (503, "no worker has published a model")
        assert http.get("/v1/models").json()["data"] == []
        reply = http.post("/v1/embeddings", json={"input": "text"})
        assert reply.status_code == 503
        assert int(reply.headers["Retry-After"]) >= 1
        assert http.post("/v1/embeddings", json=BODY).status_code == 404
        with local.worker(DEMO_MODEL, nats_server.url):
            until_ready(served.url)
        # What is published stays when its workers go.
        reply = http.get("/health/ready")
        assert (reply.status_code, reply.json()["reason"].partition(":")[0]) == (
            503,
            f"no worker is there for {DEMO_MODEL}",
        )


async def test_it_is_ready_while_a_worker_is_there(nats_server: local.Server, minilm: Engine) -> None:
    async with held(minilm, nats_server.url, announce_s=1) as (_, worker, served), httpx.AsyncClient() as http:
        await asyncio.to_thread(until_ready, served.url)
        assert "headrace_gateway_ready 1.0" in (await http.get(f"{served.url}/metrics")).text
        await worker.drain()
        await asyncio.to_thread(until_ready, served.url, 503)
        assert "headrace_gateway_ready 0.0" in (await http.get(f"{served.url}/metrics")).text


def test_losing_nats_and_finding_it_again_is_logged_and_counted(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(local.server(tmp_path))
        served = stack.enter_context(gateway(first.url))
        http = stack.enter_context(httpx.Client(base_url=served.url))
        assert "headrace_gateway_connected 1.0" in http.get("/metrics").text
        first.process.terminate()
        until_metrics_have(http, "headrace_gateway_connected 0.0")
        first.process.wait(20)
        stack.enter_context(local.server(tmp_path, port=first.port))
        until_metrics_have(http, "headrace_gateway_reconnects_total 1.0")
        for said in ("the connection to nats-server is lost", "connected to nats-server again"):
            served.line_with(said)


def test_without_nats_it_lives_and_is_not_ready() -> None:
    with local.server() as server, gateway(server.url) as served, httpx.Client(base_url=served.url, timeout=60) as http:
        assert http.get("/health/live").status_code == 200
        server.process.terminate()
        server.process.wait(20)
        assert http.get("/health/live").status_code == 200
        assert http.get("/health/ready").status_code == 503
        reply = http.post("/v1/embeddings", json={"input": "text"}, headers=headers(Timeout_Ms="200"))
        assert reply.status_code == 503
        assert "Retry-After" in reply.headers
