"""What the batch queue has of a job, and what it should not have."""

from collections.abc import AsyncIterator

import pytest
from headrace import local
from headrace.bulk import queued
from headrace_contracts import subjects, topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient

from .broker import connections

MODEL = "m"
STREAM = subjects.batch_stream(MODEL)
OURS, OTHERS = (subjects.batch(MODEL, job, 0) for job in ("ours", "theirs"))


@pytest.fixture
async def nats(nats_server: local.Server) -> AsyncIterator[NatsClient]:
    """A connection to a server whose queue has two chunks of ours, then one of another job, then one of ours."""
    async with connections(nats_server.url, 1) as (nats,):
        stream = topology.batch_stream(MODEL, max_msg_size=1000)
        await api(nats, f"STREAM.CREATE.{STREAM}", stream.to_api())
        for subject in (OURS, OURS, OTHERS, OURS):
            await nats.jetstream().publish(subject, b"a chunk")
        yield nats


async def with_consumer(nats: NatsClient) -> None:
    consumer = topology.batch_consumer(MODEL, ack_wait_s=60)
    await api(
        nats,
        f"CONSUMER.CREATE.{STREAM}.{topology.CONSUMER}",
        {"stream_name": STREAM, "config": consumer.to_api()},
    )


async def test_chunks_are_counted_by_subject(nats: NatsClient) -> None:
    assert await queued.num_queued(nats, MODEL, OURS) == 3
    assert await queued.num_queued(nats, MODEL, subjects.batch_all(MODEL)) == 4
    assert await queued.num_queued(nats, "other", OURS) == 0


async def test_what_is_to_be_handed_out_yet_stays(nats: NatsClient) -> None:
    assert await queued.drop_done(nats, MODEL, OURS) == 0, "without a consumer nothing is done"
    await with_consumer(nats)
    assert await queued.drop_done(nats, MODEL, OURS) == 0
    assert await queued.num_queued(nats, MODEL, OURS) == 3


async def test_what_is_acked_and_there_all_the_same_is_dropped(
    nats: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_consumer(nats)

    async def damaged(nats: NatsClient, call: str, config: dict[str, object] | None = None) -> object:
        """As a cluster answers whose consumer knows of three acks and whose queue has lost them."""
        answer = await api(nats, call, config)
        if call.startswith("CONSUMER.INFO") and answer is not None:
            answer["ack_floor"]["stream_seq"] = 3
        return answer

    monkeypatch.setattr(queued, "api", damaged)
    assert await queued.drop_done(nats, MODEL, OURS) == 2
    assert await queued.num_queued(nats, MODEL, OURS) == 1, "the last one is not acked"
    assert await queued.num_queued(nats, MODEL, OTHERS) == 1, "another job's is its own affair"
