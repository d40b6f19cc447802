"""The spans of a call and of its chunks, where OpenTelemetry is set up.

Knows their names and attributes: messaging.* as OpenTelemetry's conventions for messaging have them
(https://opentelemetry.io/docs/specs/semconv/messaging/), headrace.* of our own. Does not know how a chunk travels.
"""

from typing import TYPE_CHECKING

from headrace_contracts import Chunk, ErrorReply, Priority, Reply
from headrace_contracts.tracing import Tracing

from headrace.errors import RequestFailed
from headrace.outcome import Event, Outcome
from headrace.result import CallUsage

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class ChunkSpan:
    """A chunk from its first publish to its reply; each copy of it is an event.

    Attributes:
        traceparent: names it, for the chunk's header.
    """

    def __init__(self, tracing: Tracing, span: "Span") -> None:
        """Use CallSpan.chunk."""
        self._tracing = tracing
        self._span = span
        self.traceparent = tracing.traceparent(span)

    def published(self, route: str, copy: int) -> None:
        """A copy goes out, to this subject."""
        self._span.add_event("published", {"messaging.destination.name": route, "headrace.copy": copy})

    def hedged(self, route: str) -> None:
        """Its reply is late, and a copy goes to another shard."""
        self._span.add_event("hedged", {"messaging.destination.name": route})

    def told(self, event: Event) -> None:
        """Something came that is not the end, so that it is published again."""
        if isinstance(event, Outcome):
            self._span.add_event(event.name.lower())
        elif isinstance(event, ErrorReply):
            self._span.add_event("refused", {"headrace.code": str(event.code), "headrace.text": event.text})

    def replied(self, reply: Reply | ErrorReply) -> None:
        """It is answered."""
        self._span.set_attribute("headrace.worker", reply.worker)
        if isinstance(reply, ErrorReply):
            self._tracing.fail(self._span, str(reply.code), reply.text)
        else:
            usage = reply.usage
            self._span.set_attributes({"headrace.queue_ms": usage.queue_ms, "headrace.run_ms": usage.run_ms})

    def failed(self, error: BaseException) -> None:
        """Nobody waits for its reply any more."""
        self._tracing.fail(self._span, _code(error), str(error))

    def end(self) -> None:
        """It is over."""
        self._span.end()


class CallSpan:
    """A call from its arguments to its result."""

    def __init__(self, tracing: Tracing, task: str, traceparent: str | None, attributes: dict[str, str | int]) -> None:
        """Begin it.

        Args:
            tracing: starts spans.
            task: of the call.
            traceparent: its parent; None is the current span.
            attributes: what is known of it.
        """
        self._tracing = tracing
        self._task = task
        parent = None if traceparent is None else tracing.of(traceparent)
        self._span = tracing.start(task, "client", attributes, parent=parent)

    def chunk(self, chunk: Chunk, body: bytes, route: str, priority: Priority, request_id: str) -> ChunkSpan:
        """One of its chunks is about to go out."""
        destination = f"hr.{priority}.{chunk.model}"
        few: dict[str, str] = {"messaging.system": "nats", "messaging.destination.template": destination}
        span = self._tracing.start(f"publish {destination}", "producer", few, parent=self._tracing.under(self._span))
        if not span.is_recording():
            return ChunkSpan(self._tracing, span)
        attributes: dict[str, str | int] = {
            "messaging.operation.name": "publish",
            "messaging.operation.type": "send",
            "messaging.destination.name": route,
            "messaging.message.conversation_id": request_id,
            "messaging.message.body.size": len(body),
            "headrace.request_id": request_id,
            "headrace.chunk_id": chunk.id,
            "headrace.model": chunk.model,
            "headrace.tokens": chunk.num_tokens,
            "headrace.sequences": chunk.num_sequences,
        }
        span.set_attributes(attributes)
        return ChunkSpan(self._tracing, span)

    def served_by(self, model: str) -> None:
        """Which model it is for is known."""
        self._span.update_name(f"{self._task} {model}")
        self._span.set_attribute("headrace.model", model)

    def done(self, usage: CallUsage, num_errors: int) -> None:
        """It has a result."""
        self._span.set_attributes(
            {"headrace.tokens": usage.tokens, "headrace.chunks": usage.chunks, "headrace.failed_items": num_errors}
        )

    def failed(self, error: BaseException) -> None:
        """It has none."""
        self._tracing.fail(self._span, _code(error), str(error))

    def end(self) -> None:
        """It is over."""
        self._span.end()


def _code(error: BaseException) -> str:
    """An error code of the contract where it has one, else its kind: of few, as conventions ask."""
    return str(error.code) if isinstance(error, RequestFailed) else type(error).__name__
