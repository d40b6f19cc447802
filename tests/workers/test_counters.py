"""What each event of a worker adds to its counters."""

import asyncio
import time
from collections.abc import Callable

import numpy as np
import pytest
from headrace_contracts import BadItem, Chunk, Envelope, ErrorCode, Priority, Usage, encode_chunk
from headrace_workers import Counters
from headrace_workers.delivery import Delivery
from headrace_workers.step import Step
from headrace_workers.work import Work
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

TRACE = "0af7651916cd43dd8448eb211c80319c"


def work(
    *lengths: int, priority: Priority = "online", count: int = 1, age_s: float = 0.0, traceparent: str | None = None
) -> Work:
    """A chunk that the broker stored so many seconds ago."""
    sent = Chunk(
        id="chunk-1",
        task="embed",
        model="m",
        fingerprint="f",
        lengths=np.array(lengths, np.uint32),
        token_ids=np.full(sum(lengths), 7, np.uint32),
    )
    envelope = Envelope(reply_to="hr.inbox.test.r", tokens=sent.num_tokens, traceparent=traceparent)
    place = f"$JS.ACK.S.workers.{count}.1.1.{int((time.time() - age_s) * 1e9)}.0"
    message = Msg(NatsClient(), "hr.online.m.0.0", place, encode_chunk(sent), envelope.to_headers())
    delivery = Delivery(message, priority, lambda _: None)
    delivery.num_tokens = sent.num_tokens
    runnable = np.arange(sent.num_sequences)
    return Work(delivery=delivery, envelope=envelope, chunk=sent, runnable=runnable, bad=(), num_tokens=sent.num_tokens)


def step(*works: Work, fill: float = 0.5) -> Step:
    return Step(
        works=works,
        pack_ms=2,
        queue_ms=(1,) * len(works),
        num_tokens=sum(each.num_tokens for each in works),
        num_sequences=sum(each.chunk.num_sequences for each in works),
        fill=fill,
        tells=False,
        result=asyncio.get_running_loop().create_future(),
    )


def usage(tokens: int, queue_ms: float = 0, run_ms: float = 0) -> Usage:
    return Usage(tokens=tokens, queue_ms=queue_ms, run_ms=run_ms, batch_tokens=tokens)


def nonzero(counts: dict[tuple[Priority, str, str], int]) -> dict[tuple[Priority, str, str], int]:
    return {key: number for key, number in counts.items() if number}


def test_a_message_counts_as_redelivered_from_its_second_delivery_on() -> None:
    counters = Counters()
    counters.arrive(work(3).delivery)
    counters.arrive(work(3, priority="batch", count=2).delivery)
    assert (counters.delivered, counters.redelivered) == (2, {"online": 0, "batch": 1})


def test_tokens_are_held_until_their_message_is_settled_and_pulled_for_good() -> None:
    counters = Counters()
    first, second = work(3, 4), work(5, priority="batch")
    counters.hold(first.delivery)
    counters.hold(second.delivery)
    counters.let_go(first.delivery)
    assert (counters.held_tokens, counters.max_held_tokens) == (5, 12)
    assert counters.tokens_in == {"online": 7, "batch": 5}


def test_an_answer_counts_its_chunk_and_each_of_its_sequences_by_what_became_of_it() -> None:
    counters = Counters()
    bad = (BadItem(0, ErrorCode.TOO_LONG, "…"), BadItem(2, ErrorCode.NON_FINITE, "…"))
    counters.answer(work(3, 4, 5), bad, usage(tokens=9))
    assert nonzero(counters.chunks) == {("online", "embed", "ok"): 1}
    assert nonzero(counters.sequences) == {
        ("online", "embed", "ok"): 1,
        ("online", "embed", "too_long"): 1,
        ("online", "embed", "non_finite"): 1,
    }
    assert (counters.answered, counters.refused, counters.non_finite) == (1, 0, 1)
    assert counters.tokens_out == {"online": 9, "batch": 0}


@pytest.mark.parametrize(
    ("code", "total"),
    [
        (ErrorCode.EXPIRED, lambda counters: counters.expired),
        (ErrorCode.CANCELLED, lambda counters: counters.cancelled),
        (ErrorCode.INVALID, lambda counters: counters.refused),
        (ErrorCode.INTERNAL, lambda counters: counters.refused),
    ],
)
def test_a_refused_chunk_is_counted_once_by_its_code(code: ErrorCode, total: Callable[[Counters], int]) -> None:
    counters = Counters()
    counters.refuse(work(3).delivery, None, code)
    assert nonzero(counters.chunks) == {("online", "unknown", code): 1}
    assert total(counters) == 1
    assert counters.answered + counters.expired + counters.cancelled + counters.refused == 1


def test_the_stages_of_an_answered_chunk_add_up_to_its_request() -> None:
    counters = Counters()
    answered = work(3, age_s=2)
    counters.answer(answered, (), usage(tokens=3, queue_ms=500, run_ms=300))
    queue, reply = (counters.stages["online", stage].sum for stage in ("queue", "reply"))
    request = counters.requests["online"].sum
    assert request >= 2
    assert queue + 0.3 + reply == pytest.approx(request)


async def test_each_chunk_of_a_step_has_the_steps_time_in_its_own_class() -> None:
    counters = Counters()
    counters.run(step(work(3), work(4), work(5, 5, priority="batch"), fill=0.25), run_ms=300)
    assert sum(counters.stages["online", "run"].counts) == 2
    assert sum(counters.stages["batch", "pack"].counts) == 1
    assert counters.stages["online", "run"].sum == pytest.approx(0.6)
    assert (counters.steps, counters.tokens) == (1, 17)
    assert [each.sum for each in (counters.step_tokens, counters.step_sequences, counters.step_fill)] == [17, 4, 0.25]


async def test_a_step_that_runs_ends_a_row_of_failures() -> None:
    counters = Counters()
    for _ in range(2):
        counters.fail(RuntimeError("the launch failed"))
    assert (counters.failed_in_a_row, counters.failure) == (2, "RuntimeError('the launch failed')")
    counters.run(step(work(3)), run_ms=1)
    assert (counters.failed_in_a_row, counters.failed_steps) == (0, 2)


@pytest.mark.parametrize(
    ("traceparent", "trace_id"),
    [
        (f"00-{TRACE}-b7ad6b7169203331-01", TRACE),
        (f"00-{TRACE}-b7ad6b7169203331-03", TRACE),
        (f"01-{TRACE}-b7ad6b7169203331-01-what-a-later-version-adds", TRACE),
        (f"00-{TRACE}-b7ad6b7169203331-00", None),
        ("nonsense", None),
        (None, None),
    ],
)
def test_a_request_leads_to_its_trace_where_its_caller_records_one(
    traceparent: str | None, trace_id: str | None
) -> None:
    counters = Counters()
    counters.answer(work(3, traceparent=traceparent), (), usage(tokens=3))
    seen = [each.trace_id for each in counters.requests["online"].sightings if each is not None]
    assert seen == ([] if trace_id is None else [trace_id])
