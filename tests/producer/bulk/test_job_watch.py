"""What is seen of the KV bucket is whole from the first moment, however much is written meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from headrace import local
from headrace.bulk.jobs.bucket import Bucket
from headrace.bulk.jobs.watch import watching
from nats.aio.client import Client as NatsClient
from nats.js.errors import BucketNotFoundError

from ...waiting import until
from .broker import connections


@pytest.fixture
async def two(nats_server: local.Server) -> AsyncIterator[tuple[NatsClient, NatsClient]]:
    """Two connections to a server that has the bucket."""
    async with connections(nats_server.url, 2) as (one, other):
        await Bucket(one).create()
        yield one, other


async def test_what_is_there_is_seen_at_once_whoever_writes_meanwhile(two: tuple[NatsClient, NatsClient]) -> None:
    bucket, keys = Bucket(two[0]), [f"nightly.{number}" for number in range(40)]
    revisions = {key: await bucket.put(key, b"0", None) for key in keys}

    async def write(some: list[str]) -> None:
        while True:
            for key in some:
                revisions[key] = await bucket.put(key, b"1", revisions[key])

    writing = [asyncio.create_task(write(keys[first::8])) for first in range(8)]
    for _ in range(100):
        async with watching(two[1], "nightly.*") as watch:
            assert sorted(watch.entries) == sorted(keys)
    for task in writing:
        task.cancel()


async def test_what_is_written_and_removed_is_seen_as_it_happens(two: tuple[NatsClient, NatsClient]) -> None:
    bucket = Bucket(two[0])
    async with watching(two[1], "nightly", "nightly.*") as watch:
        assert watch.entries == {}
        revision = await bucket.put("nightly.1", b"one", None)
        await bucket.put("another.1", b"x", None)
        await bucket.put("nightly", b"job", None)
        await until(lambda: len(watch.entries) == 2, "both are seen")
        assert (watch.entries["nightly.1"].value, watch.entries["nightly.1"].revision) == (b"one", revision)
        await bucket.forget("nightly.1")
        await until(lambda: [*watch.entries] == ["nightly"], "it is gone")
    async with watching(two[1], "nightly", "nightly.*") as watch:
        assert [*watch.entries] == ["nightly"]


async def test_without_a_bucket_there_is_nothing_to_watch(nats_server: local.Server) -> None:
    async with connections(nats_server.url, 1) as (nats,):
        with pytest.raises(BucketNotFoundError):
            async with watching(nats, "nightly"):
                pytest.fail("there is no bucket")


async def test_an_error_inside_is_raised_as_it_is_and_the_consumer_goes(two: tuple[NatsClient, NatsClient]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with watching(two[0], "nightly"):
            raise ZeroDivisionError
    async with asyncio.timeout(10):
        while (await two[1].jetstream().stream_info("KV_hr_jobs")).state.consumer_count:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


async def test_a_consumer_that_vanished_is_made_anew(two: tuple[NatsClient, NatsClient]) -> None:
    bucket, jetstream = Bucket(two[0]), two[0].jetstream()
    async with watching(two[1], "nightly") as watch:
        (consumer,) = await jetstream.consumers_info("KV_hr_jobs")
        await jetstream.delete_consumer("KV_hr_jobs", consumer.name)
        await bucket.put("nightly", b"unseen at first", None)
        await until(lambda: "nightly" in watch.entries, "it is seen later")
        assert watch.life == 2
