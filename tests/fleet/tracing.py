"""OpenTelemetry's SDK, set up for one test: spans end in memory."""

from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanContext


class Spans:
    """What was traced."""

    def __init__(self, share: float = 1) -> None:
        self._exporter = InMemorySpanExporter()
        # Whatever the environment of whoever runs the tests asks for.
        self.provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)))
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, beginning: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name.startswith(beginning)]

    def one(self, beginning: str) -> ReadableSpan:
        (found,) = self.named(beginning)
        return found


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def context(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def id_of(span: ReadableSpan) -> int:
    return context(span).span_id


def trace_of(span: ReadableSpan) -> int:
    return context(span).trace_id


def told(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def happened(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def set_up(monkeypatch: pytest.MonkeyPatch, share: float = 1) -> Spans:
    """Have this process trace until the test is over; the API itself lets a provider be set only once."""
    spans = Spans(share)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", spans.provider)
    return spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """All that a test traces."""
    found = set_up(monkeypatch)
    yield found
    found.provider.shutdown()
