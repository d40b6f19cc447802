"""Processes of bulk jobs that are killed, frozen or left without a disk: no row is lost, none is there twice."""

import asyncio
import random
import resource
import shutil
import signal
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from headrace import local
from headrace.bulk.jobs.store import Jobs
from headrace_engine import Engine

from ..waiting import until
from .broker_view import connected
from .harness import Running, WatchedEngine, brisk, running
from .reindexing import BATCH, NAME, Corpus, ended, ending, kill

# Chunks of a few texts, one a step: there are many moments to be killed at.
SMALL_STEPS = {"step_tokens": 256, "max_chunk_tokens": 256}
SOME_FAILED, INTERRUPTED = 3, 130


async def some_more(worker: Running, engine: WatchedEngine, steps: int, of: "subprocess.Popen[str]") -> None:
    """Let the engine take so many steps, and wait until they are answered, or the process has no more."""
    wanted = worker.counters.answered + steps
    engine.permit(steps)
    await until(lambda: worker.counters.answered >= wanted or of.poll() is not None, "the steps are answered")


async def some_acks(url: str) -> None:
    """Wait until the workers have answered a little."""
    async with connected(url) as link:
        acks = await link.subscribe(f"$JS.ACK.{BATCH}.>")
        for _ in range(3):
            await acks.next_msg(timeout=20)


async def works_alone(jobs: Jobs, process: "subprocess.Popen[str]") -> None:
    """Wait until all shards that somebody works on are this process's."""
    async with asyncio.timeout(20):
        while True:
            shards = (await jobs.shards("job")).values()
            if {shard.owner.pid for shard in shards if shard.owner is not None} == {process.pid}:
                return
            await asyncio.sleep(0.05)  # a watch of the bucket would be what is tested


@pytest.mark.parametrize("seed", range(2))
async def test_a_process_killed_again_and_again_is_made_good_by_the_same_command(
    nats_server: local.Server, shallow: Engine, tmp_path: Path, seed: int
) -> None:
    corpus, rng = Corpus(tmp_path, 150), random.Random(seed)  # noqa: S311 - a test's plan
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url, **SMALL_STEPS)) as worker:
        for _ in range(4):
            async with ending(corpus.start(nats_server.url)) as (doomed,):
                await some_more(worker, engine, rng.randint(1, 12), doomed)
                await asyncio.sleep(rng.random() / 20)  # some time between a result and the next one
                kill(doomed)
        engine.release()
        async with ending(corpus.start(nats_server.url)) as (last,):
            code, said = await ended(last)
        assert code == SOME_FAILED, said
        await corpus.assert_whole(nats_server.url)


async def test_a_killed_worker_and_a_killed_broker_are_made_good(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path, 150)
    flags = ("--dtype", "float32", "--batch-ack-wait", "1", "--threads", "1", "--max-chunk-tokens", "256")
    with ExitStack() as first_life, ExitStack() as second_life:
        server = first_life.enter_context(local.server(tmp_path / "nats"))
        url = server.url
        doomed = second_life.enter_context(local.worker(NAME, url, *flags))
        async with ending(corpus.start(url)) as (working,):
            await some_acks(url)
            doomed.kill()
            await asyncio.to_thread(doomed.wait)
            server.process.kill()
            await asyncio.to_thread(first_life.close)
            second_life.enter_context(local.server(tmp_path / "nats", port=server.port))
            second_life.enter_context(local.worker(NAME, url, *flags))
            code, said = await ended(working)
        assert code == SOME_FAILED, said
        await corpus.assert_whole(url)


async def test_of_a_process_that_is_frozen_past_its_lease_another_takes_the_shard_and_both_end_well(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    corpus, engine = Corpus(tmp_path, 200, 1), WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url, **SMALL_STEPS)) as worker, connected(nats_server.url) as link:
        async with ending(corpus.start(nats_server.url, lease_s=1)) as (frozen,):
            await some_more(worker, engine, 4, frozen)
            # From then on it holds no lock of the folder, which would be frozen with it.
            await until(lambda: any(corpus.sink.glob("part-*.parquet")), "a window is written")
            frozen.send_signal(signal.SIGSTOP)
            async with ending(corpus.start(nats_server.url, lease_s=1)) as (other,):
                await works_alone(Jobs(link), other)
                await some_more(worker, engine, 2, other)
                frozen.send_signal(signal.SIGCONT)
                engine.release()
                for process in (frozen, other):
                    code, said = await ended(process)
                    assert code == SOME_FAILED, said
        await corpus.assert_whole(nats_server.url)


async def test_a_process_that_wakes_up_when_others_have_done_its_work_finds_the_job_done(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    corpus, engine = Corpus(tmp_path, 100, 3), WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url, **SMALL_STEPS)) as worker:
        async with ending(corpus.start(nats_server.url, lease_s=1)) as (frozen,):
            await some_more(worker, engine, 4, frozen)
            # From then on it holds no lock of the folder, which would be frozen with it.
            await until(lambda: any(corpus.sink.glob("part-*.parquet")), "a window is written")
            frozen.send_signal(signal.SIGSTOP)
            engine.release()
            async with ending(corpus.start(nats_server.url, lease_s=1)) as (other,):
                assert (await ended(other))[0] == SOME_FAILED
            frozen.send_signal(signal.SIGCONT)
            code, said = await ended(frozen)
            assert code == SOME_FAILED, said
        await corpus.assert_whole(nats_server.url)


async def test_a_sink_without_room_ends_the_job_with_the_reason_and_more_room_lets_it_go_on(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    corpus = Corpus(tmp_path, 100)
    # A part takes some 33,000 bytes, of 20 vectors of 384 floats.
    no_room = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20_000, 20_000))
    async with running(shallow, brisk(nats_server.url)):
        async with ending(corpus.start(nats_server.url, preexec_fn=no_room)) as (full,):
            code, said = await ended(full)
        assert code == 1
        assert "File too large (EFBIG): make room, and the same command goes on" in said
        assert "Traceback" not in said
        async with ending(corpus.start(nats_server.url)) as (again,):
            assert (await ended(again))[0] == SOME_FAILED
        await corpus.assert_whole(nats_server.url)


async def test_a_process_that_is_told_to_end_ends_even_while_the_broker_is_away(
    tmp_path: Path, shallow: Engine
) -> None:
    corpus, engine = Corpus(tmp_path, 100), WatchedEngine(shallow, held=True)
    with ExitStack() as first_life, ExitStack() as second_life:
        server = first_life.enter_context(local.server(tmp_path / "nats"))
        async with running(engine, brisk(server.url, **SMALL_STEPS)) as worker:
            async with ending(corpus.start(server.url)) as (told,):
                await some_more(worker, engine, 2, told)
                await asyncio.to_thread(first_life.close)
                told.send_signal(signal.SIGTERM)
                code, said = await ended(told, 30)
            assert code == INTERRUPTED
            assert said.endswith("job job stopped here; the same command goes on with it\n")
            second_life.enter_context(local.server(tmp_path / "nats", port=server.port))
            engine.release()
            async with ending(corpus.start(server.url)) as (again,):
                assert (await ended(again))[0] == SOME_FAILED
            await corpus.assert_whole(server.url)


async def test_the_same_command_goes_on_when_nats_server_has_lost_all_that_it_stored(
    tmp_path: Path, shallow: Engine
) -> None:
    corpus, engine, store = Corpus(tmp_path, 100), WatchedEngine(shallow, held=True), tmp_path / "nats"
    with ExitStack() as first_life, ExitStack() as second_life:
        server = first_life.enter_context(local.server(store))
        async with running(engine, brisk(server.url, **SMALL_STEPS)) as worker:
            async with ending(corpus.start(server.url)) as (process,):
                await some_more(worker, engine, 2, process)
                await asyncio.to_thread(first_life.close)
                shutil.rmtree(store)
                second_life.enter_context(local.server(store, port=server.port))
                engine.release()
                code, said = await ended(process)
            assert code == 1, said
            async with ending(corpus.start(server.url)) as (again,):
                assert (await ended(again))[0] == SOME_FAILED
            await corpus.assert_whole(server.url)
