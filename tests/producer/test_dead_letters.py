"""Dead letters in the NATS stream of a real nats-server: all are read, and a replay loses none."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from headrace import local
from headrace.dead_letters import DeadLetters, NotReplayed
from headrace.errors import ConnectionFailed
from headrace.letter import Letter
from headrace_contracts import encode_chunk, headers, subjects
from nats.aio.client import Client as NatsClient

from ..fleet.broker_view import api, num_messages
from .bulk.broker import connections
from .letters import MODEL, chunk, die, letter_headers, streams

BATCH = subjects.batch_stream(MODEL)


@pytest.fixture
async def nats(nats_server: local.Server) -> AsyncIterator[NatsClient]:
    async with connections(nats_server.url, 1) as (connection,):
        yield connection


async def read(nats: NatsClient, first: int = 1, last: int | None = None) -> list[Letter]:
    return [letter async for letter in DeadLetters(nats).read(first=first, last=last)]


async def test_where_no_worker_has_ever_been_there_are_no_letters(nats: NatsClient) -> None:
    assert await read(nats) == []
    await streams(nats)
    assert await read(nats) == []


async def test_all_letters_are_read_in_order_however_many(nats: NatsClient) -> None:
    await streams(nats)
    for number in range(350):
        await die(nats, letter_headers(place=f"HR_BATCH_{MODEL}-{number}"))
    assert [letter.seq for letter in await read(nats)] == [*range(1, 351)]
    assert [letter.seq for letter in await read(nats, 120, 125)] == [*range(120, 126)]
    assert await read(nats, 351) == []
    assert [letter.seq for letter in await read(nats, 350, 10**18)] == [350]


async def test_letters_that_were_removed_leave_gaps_that_stop_nobody(nats: NatsClient) -> None:
    await streams(nats)
    for number in range(10):
        await die(nats, letter_headers(place=f"HR_BATCH_{MODEL}-{number}"))
    for seq in (1, 2, 5, 9, 10):
        await nats.jetstream().delete_msg("HR_DEAD", seq)
    assert [letter.seq for letter in await read(nats)] == [3, 4, 6, 7, 8]
    assert [letter.seq for letter in await read(nats, 5, 5)] == []
    await nats.jetstream().purge_stream("HR_DEAD")
    assert await read(nats) == []


async def test_readers_leave_no_consumers_behind(nats: NatsClient) -> None:
    await streams(nats)
    await die(nats)
    await read(nats)
    assert (await api(nats, "STREAM.INFO.HR_DEAD"))["state"]["consumer_count"] == 0


async def test_a_letter_of_a_bulk_job_is_queued_again_as_it_was_and_forgotten(nats: NatsClient) -> None:
    await streams(nats)
    await die(nats, letter_headers(tenant="search"))
    (letter,) = await read(nats)
    await DeadLetters(nats).replay(letter)
    queued = await nats.jetstream().get_last_msg(BATCH, "hr.batch.minilm.nightly.7")
    assert queued.data == encode_chunk(chunk())
    assert queued.headers == letter.again(0)
    assert await num_messages(nats, "HR_DEAD") == 0


async def test_a_replay_that_was_cut_off_before_the_letter_was_forgotten_queues_nothing_twice(
    nats: NatsClient,
) -> None:
    await streams(nats)
    await die(nats)
    (letter,) = await read(nats)
    await asyncio.gather(*(DeadLetters(nats).replay(letter) for _ in range(5)))
    assert await num_messages(nats, BATCH) == 1


async def test_a_letter_whose_caller_waits_no_more_stays_unless_told_otherwise(nats: NatsClient) -> None:
    await streams(nats)
    inbox = "hr.inbox.c11e47.3.r"
    await die(nats, letter_headers(inbox, f"HR_ONLINE_{MODEL}_0_1-5", deadline_ms=1), priority="online")
    (letter,) = await read(nats)
    with pytest.raises(NotReplayed, match="listens no more: --force"):
        await DeadLetters(nats).replay(letter)
    assert await num_messages(nats, "HR_DEAD") == 1
    await DeadLetters(nats).replay(letter, force=True)
    queued = await nats.jetstream().get_last_msg(subjects.online_stream(MODEL, 0, 1), "hr.online.minilm.0.1")
    assert queued.headers is not None
    assert headers.DEADLINE not in queued.headers
    assert await num_messages(nats, "HR_DEAD") == 0


async def test_a_letter_that_finds_no_room_stays(nats: NatsClient) -> None:
    await streams(nats)
    config = (await api(nats, f"STREAM.INFO.{BATCH}"))["config"]
    await api(nats, f"STREAM.UPDATE.{BATCH}", {**config, "max_bytes": 10})
    await die(nats)
    (letter,) = await read(nats)
    with pytest.raises(NotReplayed, match="the queue of minilm is full: try again when there is room"):
        await DeadLetters(nats).replay(letter)
    assert await num_messages(nats, "HR_DEAD") == 1


async def test_a_letter_of_a_model_that_nobody_serves_any_more_stays(nats: NatsClient) -> None:
    await streams(nats)
    await die(nats, model="gone")
    (letter,) = await read(nats)
    with pytest.raises(
        NotReplayed, match=r"no NATS stream takes hr\.batch\.gone\.nightly\.7: start a worker that serves"
    ):
        await DeadLetters(nats).replay(letter)
    assert await num_messages(nats, "HR_DEAD") == 1


async def test_what_is_no_chunk_and_says_nothing_is_read_and_stays(nats: NatsClient) -> None:
    await streams(nats)
    await nats.jetstream().publish("hr.dead.Not A Model.batch".replace(" ", "_"), b"\xc1")
    await nats.jetstream().publish("hr.dead.a.b.c", b"", headers={"Hr-Reply": "hr.results.job.0"})
    for letter in await read(nats):
        with pytest.raises(NotReplayed, match="it cannot be told where it was published first"):
            await DeadLetters(nats).replay(letter, force=True)
    assert await num_messages(nats, "HR_DEAD") == 2


async def test_without_a_server_there_is_a_clear_end(nats: NatsClient, nats_server: local.Server) -> None:
    await streams(nats)
    await die(nats)
    (letter,) = await read(nats)
    nats_server.process.kill()
    with pytest.raises(ConnectionFailed, match="could not read the dead letters"):
        await read(nats)
    with pytest.raises(ConnectionFailed, match="could not replay dead letter 1"):
        await DeadLetters(nats).replay(letter)
