import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import nats
import pytest
from headrace import local
from headrace_contracts import encode_chunk, limits, subjects, topology
from headrace_contracts.topology import CONSUMER, ConsumerSpec, StreamSpec
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from .sizes import LONGEST, SUBJECT, header_block, largest_chunk, largest_headers

SIZE = limits.max_message_bytes(1024, 100)
STREAMS = [
    topology.online_stream("minilm", 0, 0, max_msg_size=SIZE),
    topology.online_stream(LONGEST, 31, 0, max_msg_size=SIZE),
    topology.batch_stream("minilm", max_msg_size=SIZE),
    topology.batch_stream(LONGEST, max_msg_size=SIZE),
    topology.results_stream(),
    topology.dead_stream(),
]
CONSUMERS = [
    (STREAMS[0], topology.online_consumer("minilm", 0, 0)),
    (STREAMS[2], topology.batch_consumer("minilm")),
    (STREAMS[0], topology.online_consumer("minilm", 0, 0, ack_wait_s=0.5)),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with local.server() as server:
        yield server.url


@pytest.fixture
async def client(url: str) -> AsyncIterator[NatsClient]:
    connected = await nats.connect(url, inbox_prefix="hr.inbox.test")
    yield connected
    for stream in STREAMS:
        await connected.request(f"$JS.API.STREAM.DELETE.{stream.name}")
    await connected.close()


async def api(client: NatsClient, call: str, body: dict[str, object]) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.{call}", json.dumps(body).encode())
    return cast("dict[str, Any]", json.loads(answer.data))


async def create(client: NatsClient, stream: StreamSpec, consumer: ConsumerSpec | None = None) -> dict[str, Any]:
    made = await api(client, f"STREAM.CREATE.{stream.name}", stream.to_api())
    assert "error" not in made
    if consumer is not None:
        body: dict[str, object] = {"stream_name": consumer.stream, "config": consumer.to_api()}
        made = await api(client, f"CONSUMER.CREATE.{consumer.stream}.{CONSUMER}", body)
        assert "error" not in made
    return cast("dict[str, Any]", made["config"])


def is_kept(wanted: dict[str, object], found: dict[str, Any]) -> bool:
    # The API leaves out what is zero or false.
    return {name: found.get(name) or None for name in wanted} == {name: value or None for name, value in wanted.items()}


# -- as nats-server takes it


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name[:20])
async def test_the_server_takes_every_nats_stream_as_it_is(client: NatsClient, stream: StreamSpec) -> None:
    assert is_kept(stream.to_api(), await create(client, stream))


@pytest.mark.parametrize(("stream", "consumer"), CONSUMERS)
async def test_the_server_takes_every_consumer_as_it_is(
    client: NatsClient, stream: StreamSpec, consumer: ConsumerSpec
) -> None:
    assert is_kept(consumer.to_api(), await create(client, stream, consumer))


async def test_all_nats_streams_stand_side_by_side_and_making_them_again_changes_nothing(client: NatsClient) -> None:
    for stream in STREAMS * 2:
        await create(client, stream)


async def test_the_largest_chunk_is_stored_and_can_be_pulled_with_the_least_pull(client: NatsClient) -> None:
    stream = topology.batch_stream(LONGEST, max_msg_size=SIZE)
    await create(client, stream, topology.batch_consumer(LONGEST))
    body, headers = encode_chunk(largest_chunk(1024, 100)), largest_headers(1024)
    assert "error" not in await publish(client, SUBJECT, body, headers)
    (message,) = await pull(client, stream.name, limits.min_pull_bytes(1024, 100))
    assert message.data == body
    assert len(message.subject) + len(message.reply) + header_block(headers) + len(body) <= limits.min_pull_bytes(
        1024, 100
    )


async def test_one_byte_more_than_the_limit_is_refused(client: NatsClient) -> None:
    await create(client, STREAMS[0])
    headers = {"Hr-Tokens": "1"}
    room = SIZE - header_block(headers)
    assert "error" not in await publish(client, "hr.online.minilm.0.0", b"x" * room, headers)
    refused = await publish(client, "hr.online.minilm.0.0", b"x" * (room + 1), headers)
    assert refused["error"]["err_code"] == 10054


async def test_a_full_queue_says_so(client: NatsClient) -> None:
    await create(client, topology.online_stream("minilm", 0, 0, max_msg_size=SIZE, max_bytes=1500))
    assert "error" not in await publish(client, "hr.online.minilm.0.0", b"x" * 1000, {"Nats-Msg-Id": "a"})
    refused = await publish(client, "hr.online.minilm.0.0", b"x" * 1000, {"Nats-Msg-Id": "b"})
    assert (refused["error"]["code"], refused["error"]["err_code"]) == (503, 10077)


async def test_a_second_copy_under_the_same_id_is_not_stored(client: NatsClient) -> None:
    await create(client, STREAMS[0])
    first = await publish(client, "hr.online.minilm.0.0", b"x", {"Nats-Msg-Id": "a"})
    second = await publish(client, "hr.online.minilm.0.0", b"x", {"Nats-Msg-Id": "a"})
    assert (second["duplicate"], second["seq"]) == (True, first["seq"])


async def test_a_subject_without_a_nats_stream_answers_503_without_a_body(client: NatsClient) -> None:
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    await client.publish("hr.online.minilm.0.0", b"x", reply=inbox)
    answer = await answers.next_msg(timeout=5)
    assert (answer.data, (answer.headers or {})["Status"]) == (b"", "503")


async def publish(client: NatsClient, subject: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    answer = await client.request(subject, body, headers=headers, timeout=5)
    return cast("dict[str, Any]", json.loads(answer.data))


async def pull(client: NatsClient, stream: str, max_bytes: int) -> list[Msg]:
    """One message by a pull as workers send it."""
    inbox = client.new_inbox()
    inflow = await client.subscribe(inbox)
    request = {
        "batch": 1,
        "max_bytes": max_bytes,
        "expires": 5 * 10**9,
        "group": topology.PULL_GROUP,
        "priority": topology.IDLE,
    }
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{CONSUMER}", json.dumps(request).encode(), reply=inbox)
    return [await inflow.next_msg(timeout=5)]


# -- as data


def test_work_goes_to_the_nats_stream_that_is_named_for_it() -> None:
    online, batch = STREAMS[0], STREAMS[2]
    assert (online.name, online.subjects) == (
        subjects.online_stream("minilm", 0, 0),
        (subjects.online("minilm", 0, 0),),
    )
    assert (batch.name, batch.subjects) == (subjects.batch_stream("minilm"), (subjects.batch_all("minilm"),))
    assert takes(batch, subjects.batch("minilm", "job"))
    assert takes(STREAMS[4], subjects.results("job", 7))
    assert takes(STREAMS[5], subjects.dead("minilm", "batch"))


def test_consumers_belong_to_the_nats_streams_of_their_model() -> None:
    assert all(consumer.stream == stream.name for stream, consumer in CONSUMERS)


def test_no_two_models_share_a_nats_stream() -> None:
    names = [f(model) for model in ("a", "a_0", "a-0", "0") for f in (online_name, subjects.batch_stream)]
    assert len(set(names)) == len(names)


def test_nothing_that_must_not_be_lost_is_dropped_to_make_room() -> None:
    assert {stream.name for stream in STREAMS if stream.discard == "old"} == {"HR_DEAD"}


def test_every_nats_stream_is_bounded_and_forgets_no_id_before_its_message() -> None:
    for stream in STREAMS:
        assert stream.max_bytes > 0
        assert not stream.max_age_s or stream.duplicate_window_s <= stream.max_age_s


def test_the_api_counts_in_nanoseconds() -> None:
    assert STREAMS[0].to_api()["max_age"] == 30 * 10**9
    assert topology.online_consumer("minilm", 0, 0, ack_wait_s=0.5).to_api()["ack_wait"] == 5 * 10**8


def online_name(model: str) -> str:
    return subjects.online_stream(model, 0, 0)


def takes(stream: StreamSpec, subject: str) -> bool:
    return any(re.fullmatch(re.escape(pattern).replace(">", ".+"), subject) for pattern in stream.subjects)
