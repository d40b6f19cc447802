"""The results of a shard are read by one consumer, whatever became of the requests for it; and trouble is told once."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from headrace import local
from headrace.bulk import results_consumer
from headrace.bulk.results import Results
from headrace.bulk.results_consumer import ResultsConsumer, consumers
from headrace_contracts import connection, subjects, topology
from headrace_contracts.api import api
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeoutError

from ...waiting import until
from .broker import connections

JOB, SHARD = "nightly", 2


@pytest.fixture
async def nats(nats_server: local.Server) -> AsyncIterator[NatsClient]:
    """A connection to a server that has the NATS stream of results."""
    async with connections(nats_server.url, 1) as (nats,):
        await make_stream(nats)
        yield nats


async def make_stream(nats: NatsClient) -> None:
    stream = topology.results_stream()
    assert await api(nats, f"STREAM.CREATE.{stream.name}", stream.to_api())


async def publish(nats: NatsClient, shard: int = SHARD) -> None:
    await nats.jetstream().publish(subjects.results(JOB, shard), b"a result")


class Taken:
    """Counts results, of which one may come twice, and lets the broker forget them."""

    def __init__(self) -> None:
        self._those = set[int]()

    @property
    def num(self) -> int:
        return len(self._those)

    def __call__(self, message: Msg) -> bool:
        self._those.add(message.metadata.sequence.stream)
        return True


def lose(monkeypatch: pytest.MonkeyPatch, nats: NatsClient, call: str) -> None:
    """Lose the answer to the next such request: the server has done what it was asked to."""
    real, lost = nats.request, list[str]()

    async def request(subject: str, *args: Any, **kwargs: Any) -> Msg:
        answer = await real(subject, *args, **kwargs)
        if call in subject and not lost:
            lost.append(subject)
            raise NatsTimeoutError
        return answer

    monkeypatch.setattr(nats, "request", request)


async def unconfirmed(nats: NatsClient, monkeypatch: pytest.MonkeyPatch) -> tuple[ResultsConsumer, str]:
    """One whose making the server did not confirm, and the name that it has there."""
    consumer = ResultsConsumer(nats, JOB, SHARD)
    lose(monkeypatch, nats, "CONSUMER.CREATE")
    with pytest.raises(NatsTimeoutError):
        await consumer.make()
    return consumer, consumer.name


@asynccontextmanager
async def reading(nats: NatsClient, taken: Taken) -> AsyncIterator[Results]:
    """Results, while they are read."""
    link = connection.Link()
    link.up.set()
    results = Results(nats, link, JOB, SHARD)
    pulling = asyncio.create_task(results.run(taken))
    try:
        yield results
    finally:
        pulling.cancel()
        await asyncio.wait([pulling])


async def test_it_has_another_name_each_time_and_takes_the_place_of_any_that_is_there(nats: NatsClient) -> None:
    first, second, other = (ResultsConsumer(nats, JOB, shard) for shard in (SHARD, SHARD, SHARD + 1))
    await first.make()
    await other.make()
    before = first.name
    await first.make()
    assert first.name != before
    await second.make()
    assert sorted(await consumers(nats, JOB)) == sorted([second.name, other.name])


async def test_one_whose_making_was_not_confirmed_is_asked_for_again_under_the_same_name(
    nats: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, asked_for = await unconfirmed(nats, monkeypatch)
    await consumer.make()
    assert consumer.name == asked_for
    assert await consumers(nats, JOB) == [asked_for]


async def test_one_that_is_never_confirmed_is_given_up_for_another_name(
    nats: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_consumer, "_PATIENCE_S", 0.0)
    consumer, asked_for = await unconfirmed(nats, monkeypatch)
    await consumer.make()
    assert consumer.name != asked_for
    assert await consumers(nats, JOB) == [consumer.name]


async def test_one_of_which_nobody_says_that_it_is_gone_stands_in_no_ones_way(
    nats: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ResultsConsumer(nats, JOB, SHARD).make()
    lose(monkeypatch, nats, "CONSUMER.DELETE")
    consumer = ResultsConsumer(nats, JOB, SHARD)
    await consumer.make()
    assert await consumers(nats, JOB) == [consumer.name]


async def test_results_wait_also_while_there_is_no_consumer(nats: NatsClient) -> None:
    consumer = ResultsConsumer(nats, JOB, SHARD)
    assert await consumer.num_waiting() == 0
    await publish(nats)
    await publish(nats, SHARD + 1)
    assert await consumer.num_waiting() == 1
    await consumer.make()
    assert await consumer.num_waiting() == 1
    await api(nats, f"CONSUMER.DELETE.{topology.RESULTS_STREAM}.{consumer.name}")
    assert await consumer.num_waiting() == 1


async def test_when_all_is_done_nothing_of_the_shard_is_left_and_all_of_others(nats: NatsClient) -> None:
    other = ResultsConsumer(nats, JOB, SHARD + 1)
    await other.make()
    await publish(nats)
    await publish(nats, SHARD + 1)
    never_made, made = (ResultsConsumer(nats, JOB, SHARD) for _ in range(2))
    await never_made.close()
    assert await never_made.num_waiting() == 0
    await made.make()
    await made.close()
    assert await consumers(nats, JOB) == [other.name]
    assert await other.num_waiting() == 1


async def test_a_consumer_that_is_made_anew_while_results_are_awaited_is_no_trouble(
    nats: NatsClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace.bulk.results")
    taken = Taken()
    async with reading(nats, taken) as results:
        for number in range(3):
            await publish(nats)
            await until(lambda: taken.num == number + 1, "the result comes")  # noqa: B023 - called at once
            results.renew()
        await publish(nats)
        await until(lambda: taken.num == 4, "the last one comes")
        assert not caplog.records


async def test_each_trouble_is_told_once_until_results_come(
    nats_server: local.Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace.bulk.results")
    taken = Taken()

    def told() -> list[tuple[int, str]]:
        return [(each.levelno, each.getMessage()) for each in caplog.records]

    async with connections(nats_server.url, 1) as (nats,), reading(nats, taken):
        await until(lambda: len(told()) >= 3, "it has tried a few times")
        why = "there is no HR_RESULTS: workers make it when they start"
        assert {text for _, text in told()} == {
            f"the results of shard {SHARD} do not come, to be asked for again: {why}"
        }
        assert [level for level, _ in told()[:3]] == [logging.WARNING, logging.DEBUG, logging.DEBUG]
        await make_stream(nats)
        await publish(nats)
        await until(lambda: taken.num == 1, "the result comes")
