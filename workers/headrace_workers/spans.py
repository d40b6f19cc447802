"""The spans of a worker: one a chunk, from when it is received until it is settled, and one a step.

Knows their names and attributes: messaging.* as OpenTelemetry's conventions for messaging have them
(https://opentelemetry.io/docs/specs/semconv/messaging/), headrace.* of our own. Does not know the order of things
(worker.py). Without OpenTelemetry there are none, and nothing is done for them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from headrace_contracts import headers
from headrace_contracts.messages import Usage
from headrace_contracts.topology import CONSUMER
from headrace_contracts.tracing import Tracing

from headrace_workers.delivery import Delivery
from headrace_workers.work import Refused, Work, request_id

if TYPE_CHECKING:
    from opentelemetry.trace import Span

# Of what is a stranger's.
_MAX_TEXT = 200


class Spans:
    """Begins and ends the spans of one worker."""

    def __init__(self, tracing: Tracing, model: str, worker: str) -> None:
        """Use `found`."""
        self._tracing = tracing
        self._model = model
        self._worker = worker

    @classmethod
    def found(cls, model: str, worker: str) -> Self | None:
        """Those of this process; None where it has no OpenTelemetry that is set up."""
        tracing = Tracing.found()
        return None if tracing is None else cls(tracing, model, worker)

    def receive(self, delivery: Delivery) -> None:
        """A message came: a span below the one that published it."""
        found, template = delivery.headers, f"hr.{delivery.priority}.{self._model}"
        few: dict[str, str] = {"messaging.system": "nats", "messaging.destination.template": template}
        parent = self._tracing.of(found.get(headers.TRACEPARENT))
        span = delivery.span = self._tracing.start(f"process {template}", "consumer", few, parent=parent)
        if not span.is_recording():
            return
        attributes: dict[str, str | int | float] = {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": delivery.subject[:_MAX_TEXT],
            "messaging.consumer.group.name": CONSUMER,
            "messaging.message.body.size": len(delivery.body),
            "headrace.model": self._model,
            "headrace.class": delivery.priority,
            "headrace.worker": self._worker,
            "headrace.deliveries": delivery.count,
            "headrace.waited_ms": delivery.age_ms,
        }
        if (message_id := found.get(headers.MSG_ID)) is not None:
            attributes["messaging.message.id"] = message_id[:_MAX_TEXT]
        for name, header in (("headrace.tenant", headers.TENANT), ("headrace.request_id", headers.REQUEST)):
            if (value := headers.name_in(found, header)) is not None:
                attributes[name] = value
        span.set_attributes(attributes)

    def accepted(self, work: Work) -> None:
        """It is a chunk that may run."""
        if (span := work.delivery.span) is not None and span.is_recording():
            chunk = work.chunk
            span.set_attributes(
                {
                    "headrace.chunk_id": chunk.id,
                    "headrace.request_id": request_id(work.delivery, work.chunk) or "",
                    "headrace.task": chunk.task,
                    "headrace.tokens": work.num_tokens,
                    "headrace.sequences": chunk.num_sequences,
                    "headrace.bad_sequences": len(work.bad),
                }
            )

    def step(self, works: Sequence[Work], num_tokens: int) -> "Span | None":
        """A step begins: a span that is linked to each chunk in it, and each to it; None if none of them is sampled.

        It hangs below the first of them, so that whoever looks at one trace sees the step, and so that sampling is
        decided by callers alone.
        """
        spans = [
            span
            for work in works
            if (span := work.delivery.span) is not None and span.get_span_context().trace_flags.sampled
        ]
        if not spans:
            return None
        attributes: dict[str, str | int] = {
            "headrace.model": self._model,
            "headrace.worker": self._worker,
            "headrace.tokens": num_tokens,
            "headrace.chunks": len(works),
        }
        parent = self._tracing.under(spans[0])
        step = self._tracing.start(f"step {self._model}", "internal", attributes, parent=parent, links=spans)
        for span in spans:
            span.add_link(step.get_span_context())
            span.add_event("step began")
        return step

    def ran(self, work: Work, usage: Usage) -> None:
        """Its rows are there, and are about to be sent."""
        if (span := work.delivery.span) is not None and span.is_recording():
            span.add_event("step ended")
            span.set_attributes(
                {
                    "headrace.queue_ms": usage.queue_ms,
                    "headrace.run_ms": usage.run_ms,
                    "headrace.step_tokens": usage.batch_tokens,
                }
            )

    def failed_step(self, step: "Span | None", error: Exception) -> None:
        """A step raised."""
        if step is not None:
            self._tracing.fail(step, type(error).__name__, repr(error)[:_MAX_TEXT])

    def refused(self, delivery: Delivery, refused: Refused) -> None:
        """It is answered with an error."""
        if (span := delivery.span) is not None and span.is_recording():
            if refused.chunk_id:
                named = request_id(delivery, refused.chunk) or ""
                span.set_attributes({"headrace.chunk_id": refused.chunk_id, "headrace.request_id": named})
            span.set_attribute("headrace.dead_letter", refused.is_poison)
            self._tracing.fail(span, str(refused.code), refused.text[:_MAX_TEXT])
