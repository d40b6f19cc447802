"""The span of a window of a bulk job, where OpenTelemetry is set up: one for thousands of rows.

Knows its name, attributes and stages. Its chunks have none of their own here; those that workers have of them hang
below it. Does not know the order of things (shard_run.py).
"""

from headrace_contracts.tracing import Tracing

from headrace.bulk.window import Window


class WindowSpan:
    """A window from when it is read until its results are acked.

    Attributes:
        traceparent: names it, for the headers of its chunks.
    """

    def __init__(self, tracing: Tracing, job: str, model: str, window: Window) -> None:
        """Begin it, in a trace of its own."""
        self._tracing = tracing
        attributes: dict[str, str | int] = {
            "headrace.job": job,
            "headrace.request_id": job,  # what chunks of a bulk job have for one
            "headrace.model": model,
            "headrace.class": "batch",
            "headrace.window": window.name,
            "headrace.rows": len(window.ids),
        }
        self._span = tracing.start(f"window {model}", "producer", attributes, parent=tracing.of(None))
        self.traceparent = tracing.traceparent(self._span)

    def prepared(self, num_chunks: int) -> None:
        """It is tokenised and cut."""
        self._span.add_event("prepared", {"headrace.chunks": num_chunks})

    def collected(self, num_tokens: int, num_retried: int) -> None:
        """All of it is answered; what is left is to write it."""
        self._span.add_event("collected")
        self._span.set_attributes({"headrace.tokens": num_tokens, "headrace.retried": num_retried})

    def failed(self, error: BaseException) -> None:
        """It cannot be brought home, here or now."""
        self._tracing.fail(self._span, type(error).__name__, str(error))

    def end(self) -> None:
        """It is over."""
        self._span.end()
