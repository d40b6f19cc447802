"""An exporter beside a real nats-server: what it tells, what it tells no more, and how it ends."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from headrace import local
from headrace.errors import InputError
from headrace.exporter.serve import ExporterConfig, serve
from headrace_contracts import Presence, encode_presence, subjects, topology
from headrace_contracts.address import Address
from headrace_contracts.api import api
from prometheus_client.parser import text_string_to_metric_families

from ...fleet.broker_view import connected

Samples: TypeAlias = Mapping[str, float]


class Exporter:
    """An exporter that serves, asked by HTTP."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self.url = url
        self._http = http

    async def samples(self) -> Samples:
        """All series, as Prometheus reads them, by name and labels as they are written in queries."""
        page = (await self._http.get(f"{self.url}/metrics")).text
        return {
            sample.name + (json.dumps(sample.labels, sort_keys=True) if sample.labels else ""): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    async def once(self, condition: Callable[[Samples], bool]) -> Samples:
        """The first page for which it holds."""
        async with asyncio.timeout(20):
            while not condition(samples := await self.samples()):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.02)  # without a pause it would get no core to survey with
        return samples


@asynccontextmanager
async def exporting(url: str, *monitors: str) -> AsyncIterator[Exporter]:
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    config = ExporterConfig(nats=url, listen=Address("127.0.0.1", 0), every_s=0.5, monitors=monitors)
    running = asyncio.create_task(serve(config, stop, ready.set_result))
    try:
        async with httpx.AsyncClient(timeout=20) as http:
            yield Exporter(await ready, http)
    finally:
        stop.set()
        await running


def of(name: str, **labels: str) -> str:
    return name + json.dumps(labels, sort_keys=True)


WORKERS = of("headrace_fleet_workers", model="m")
BATCH = {"model": "m", "class": "batch"}


async def test_a_fleet_is_told_and_what_is_gone_is_told_no_more(nats_server: local.Server) -> None:
    async with exporting(nats_server.url) as exporter, connected(nats_server.url) as nats:
        made = topology.batch_stream("m", max_msg_size=10_000)
        await api(nats, f"STREAM.CREATE.{made.name}", made.to_api())
        for _ in range(3):
            await nats.jetstream().publish(subjects.batch("m", "job"), b"x" * 1000)
        alone = await exporter.once(lambda found: WORKERS in found)
        assert alone[WORKERS] == 0
        assert alone[of("headrace_fleet_backlog_seconds", **BATCH)] == float("inf")
        await nats.publish(subjects.fleet("m"), encode_presence(Presence(worker="w", every_ms=60_000, rate=100)))
        served = await exporter.once(lambda found: found[WORKERS] == 1)
        assert served[of("headrace_fleet_queue_messages", **BATCH)] == 3
        assert served[of("headrace_fleet_tokens_per_second", model="m")] == 100
        tokens = served[of("headrace_fleet_queue_tokens", **BATCH)]
        assert served[of("headrace_fleet_backlog_seconds", **BATCH)] == pytest.approx(tokens / 100)
        assert served[of("headrace_fleet_dead_letters", **BATCH)] == 0
        assert served[of("headrace_broker_stream_messages", stream="HR_BATCH_m")] == 3
        assert served[of("headrace_broker_stream_replicas", stream="HR_BATCH_m", state="current")] == 1
        leaving = Presence(worker="w", every_ms=60_000, leaving=True)
        await nats.publish(subjects.fleet("m"), encode_presence(leaving))
        left = await exporter.once(lambda found: found[WORKERS] == 0)
        # As long as the last one would have taken: what scales by it must not see an empty queue.
        assert left[of("headrace_fleet_backlog_seconds", **BATCH)] == pytest.approx(tokens / 100)
        await api(nats, f"STREAM.DELETE.{made.name}")
        await exporter.once(lambda found: not any('"m"' in series for series in found))


async def test_without_a_broker_only_that_is_told_until_it_is_back(tmp_path: Path) -> None:
    with local.server(tmp_path) as first:
        async with exporting(first.url, "http://127.0.0.1:1") as exporter:
            there = await exporter.once(lambda found: found.get("headrace_broker_up") == 1)
            assert there["headrace_jobs" + json.dumps({"state": "running"})] == 0
            assert there[of("headrace_broker_server_up", server="127.0.0.1:1")] == 0
            first.process.terminate()
            down = await exporter.once(lambda found: found["headrace_broker_up"] == 0)
            assert [series for series in down if series.startswith(("headrace_fleet", "headrace_job"))] == []
            assert down[of("headrace_exporter_survey_errors_total", part="broker")] >= 1
            async with httpx.AsyncClient() as http:
                for page in ("live", "ready"):
                    assert (await http.get(f"{exporter.url}/health/{page}")).json() == {"status": "ok"}
                assert (await http.get(f"{exporter.url}/")).status_code == 404
            first.process.wait(20)
            with local.server(tmp_path, port=first.port):
                await exporter.once(lambda found: found["headrace_broker_up"] == 1)


async def test_it_starts_without_a_broker_and_finds_it_later(tmp_path: Path) -> None:
    with local.server(tmp_path) as gone:
        pass
    async with exporting(gone.url) as exporter:
        await exporter.once(lambda found: found.get("headrace_broker_up") == 0)
        with local.server(tmp_path, port=gone.port):
            await exporter.once(lambda found: found["headrace_broker_up"] == 1)


@contextmanager
def command(*flags: str) -> "Iterator[subprocess.Popen[str]]":
    line = [sys.executable, "-m", "headrace", "exporter", "--listen", "127.0.0.1:0", *flags]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_ends(number: signal.Signals) -> None:
    with command("--nats", "nats://127.0.0.1:1") as process:
        assert process.stderr is not None
        assert re.search(r"headrace exporter at http://127.0.0.1:\d+/metrics", process.stderr.readline())
        process.send_signal(number)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("flags", "code", "what"),
    [
        (("--nats", "http://host"), 2, "is no URL of a nats-server"),
        (("--listen", "nonsense"), 2, "--listen is 'nonsense': write HOST:PORT"),
        (("--listen", "203.0.113.1:1"), 1, "cannot listen on 203.0.113.1:1"),
        (("--nats-monitor", "nats:8222"), 2, "write http://host:8222"),
    ],
)
def test_what_is_wrong_at_the_start_is_said_with_an_exit_code(flags: tuple[str, ...], code: int, what: str) -> None:
    with command(*flags) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert what in said
    assert "headrace exporter at" not in said
    assert "Traceback" not in said


def test_surveys_cannot_follow_each_other_without_a_pause() -> None:
    with pytest.raises(InputError, match=r"every_s is 0.1: take 0.5 or more"):
        ExporterConfig(nats="nats://127.0.0.1", every_s=0.1)


def test_without_the_extra_the_error_names_it() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; sys.argv[1:] = ['exporter']; import headrace.__main__"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "prometheus_client is not installed: pip install 'headrace[exporter]'" in ended.stderr
