"""Spans of OpenTelemetry, where this process has a provider of them, and nothing at all where it has none.

Knows OpenTelemetry's API, which is optional and is never imported for its own sake, and the header that carries a trace
from one process to the next (W3C Trace Context). Does not know what spans are of: each side does.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

Kind: TypeAlias = Literal["internal", "server", "client", "producer", "consumer"]
Attributes: TypeAlias = Mapping[str, str | bool | int | float]

_NAME = "headrace"
_HEADER = "traceparent"


class Tracing:
    """Starts spans, and tells and reads where they are."""

    def __init__(self, tracer: "Tracer") -> None:
        """Use `found`."""
        # Deferred: whoever has a tracer has imported these, and others must not have to.
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.context import Context  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._tracer = tracer
        self._trace = trace
        self._nowhere = Context()
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def found(cls) -> Self | None:
        """With this process's provider; None if it has none, as when nobody has set OpenTelemetry up."""
        trace: Any = sys.modules.get("opentelemetry.trace")
        if trace is None:  # who has set a provider has imported it
            return None
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
        return cls(provider.get_tracer(_NAME))

    def start(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        parent: "Context | None" = None,
        links: "Sequence[Span]" = (),
    ) -> "Span":
        """A span that begins now.

        Args:
            name: of few different ones.
            kind: of OpenTelemetry's five.
            attributes: what is known of it already, for samplers that look; others are for spans that are recorded.
            parent: where it hangs; None is the current span, if there is one.
            links: other spans that it has to do with.
        """
        return self._tracer.start_span(
            name,
            context=parent,
            kind=self._trace.SpanKind[kind.upper()],
            attributes=attributes,
            links=[self._trace.Link(span.get_span_context()) for span in links],
        )

    def of(self, traceparent: str | None) -> "Context":
        """The place that a header names; a new trace where there is none that can be read."""
        if traceparent is None:
            return self._nowhere
        return self._propagator.extract({_HEADER: traceparent}, context=self._nowhere)

    def under(self, span: "Span") -> "Context":
        """The place below a span."""
        return self._trace.set_span_in_context(span, self._nowhere)

    def traceparent(self, span: "Span") -> str | None:
        """The header that names a span; None for one that is none."""
        found = span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}" if found.is_valid else None

    def current(self, span: "Span") -> AbstractContextManager[object]:
        """Makes it the current span of the task while the context lasts; it ends nothing."""
        return self._trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def fail(self, span: "Span", code: str, text: str) -> None:
        """It ended in an error, of a code of the contract or a name of few."""
        span.set_attribute("error.type", code)
        span.set_status(self._trace.StatusCode.ERROR, text)
