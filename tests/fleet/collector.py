"""A collector of traces: OTLP over HTTP, as OpenTelemetry's exporters send it, kept in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Collected:
    """A span, and which service sent it."""

    service: str
    span: Span

    @property
    def told(self) -> dict[str, Any]:
        return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in self.span.attributes}


@dataclass
class Collector:
    """What came in so far."""

    url: str
    spans: list[Collected] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What has a process send its spans here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def named(self, beginning: str) -> list[Collected]:
        return [each for each in list(self.spans) if each.span.name.startswith(beginning)]

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.spans += [
                Collected(names["service.name"], span) for scope in resource.scope_spans for span in scope.spans
            ]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Collect while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") is None and self.path == "/v1/traces":
                collector.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
            """Nobody wants to know."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
