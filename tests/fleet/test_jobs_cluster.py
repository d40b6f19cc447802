"""Jobs in a real cluster: what was written stays, and work goes on, whichever server dies."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from headrace.bulk.jobs.claim import Claims
from headrace.bulk.jobs.process import this_process
from headrace.bulk.jobs.record import Checkpoint, Tally
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.results_consumer import ResultsConsumer, consumers
from headrace.errors import JobConflict
from headrace_contracts import subjects, topology
from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig
from survival.cluster import Cluster

from ..producer.bulk.broker import connections
from ..producer.bulk.job_records import job
from ..waiting import until
from .broker_view import api


async def test_each_server_in_turn_dies_while_processes_save_and_no_save_is_lost(servers: Cluster) -> None:
    num_shards = 6
    saved, over = Counter[int](), asyncio.Event()

    async def live(nats: NatsClient) -> None:
        claims = Claims(Jobs(nats), "nightly", num_shards, this_process(), lease_s=2)
        while (claim := await claims.next()) is not None:
            keeping = asyncio.create_task(claim.keep())
            rows, is_done = claim.checkpoint.tally.rows, False
            try:
                while not is_done:
                    await asyncio.sleep(0.02)
                    rows, is_done = rows + 1, over.is_set()
                    await claim.save(Checkpoint(tally=Tally(rows=rows), is_done=is_done))
                    saved[claim.shard] += 1
            except JobConflict:
                pass  # taken over while this one was cut off
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    async with connections(servers.url, 3) as all_:
        await all_[0].jetstream().create_key_value(KeyValueConfig(bucket=topology.MODELS_BUCKET, replicas=3))
        await Jobs(all_[0]).begin(job(num_shards=num_shards))
        info = await api(all_[0], "STREAM.INFO.KV_hr_jobs")
        assert info["config"]["num_replicas"] == 3
        living = [asyncio.create_task(live(nats)) for nats in all_]
        for node in servers.nodes.values():
            before = saved.total()
            node.kill()
            await until(lambda: saved.total() > before + 10, "work goes on without it")  # noqa: B023 - called at once
            node.start()
            await servers.ready()
        over.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*living)
        records = await Jobs(all_[0]).shards("nightly")
    assert sorted(records) == [*range(num_shards)]
    assert all(record.checkpoint.is_done for record in records.values())
    for shard, record in records.items():
        # More where a process wrote without hearing of it, which each claim can but once: the next went on from there.
        assert saved[shard] <= record.checkpoint.tally.rows <= saved[shard] + record.term


async def test_results_come_though_most_servers_stood_still_when_their_consumer_was_asked_for(servers: Cluster) -> None:
    nodes = servers.nodes
    leader = next(iter(nodes.values())).ask("/jsz")["meta_cluster"]["leader"]
    others = [node for name, node in nodes.items() if name != leader]
    async with connections(nodes[leader].url, 1) as (nats,):
        stream = topology.results_stream(replicas=3, max_bytes=1 << 20)
        assert "error" not in await api(nats, f"STREAM.CREATE.{stream.name}", stream.to_api())
        consumer, is_made = ResultsConsumer(nats, "nightly", 0), False
        for node in others:
            node.freeze()
        with pytest.raises(NatsError):
            await consumer.make()
        for node in others:
            node.thaw()
        async with asyncio.timeout(60):
            num_waiting = 0
            while not num_waiting:
                with suppress(NatsError):  # leaders are being chosen
                    if not is_made:
                        await consumer.make()
                        is_made = True
                    await nats.jetstream().publish(subjects.results("nightly", 0), b"a result")
                    num_waiting = await consumer.num_waiting()
        assert await consumers(nats, "nightly") == [consumer.name]
