import dataclasses
import re

import numpy as np
import pytest
from headrace_contracts import PRIORITIES, Chunk, DecodeError, InvalidName, decode_chunk, encode_chunk, subjects
from hypothesis import example, given
from hypothesis import strategies as st

from .strategies import names, patient, reply_subjects, tokens

LITERAL = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
CHUNK = Chunk(
    id="c1",
    task="embed",
    model="m",
    fingerprint="0123abcd",
    lengths=np.array([1], np.uint32),
    token_ids=np.array([5], np.uint32),
)
# Text at large hits names seldom; text of nearly right characters does.
near_names = st.text(st.sampled_from("azAZ09_-. *>\n\tß²$"), max_size=66) | st.text()


def every_subject(model: str, word: str, shard: int) -> list[str]:
    return [
        subjects.online(model, shard, 2),
        subjects.batch(model, word),
        subjects.results(word, shard),
        subjects.control(word, "drain"),
        subjects.inbox(word),
        *(subjects.dead(model, priority) for priority in PRIORITIES),
        subjects.cancel(model),
        subjects.fleet(model),
    ]


@patient
@given(near_names, near_names, st.integers(0, 2**31))
@example("m\n", "w", 0)
@example("m", "w\n", 0)
@example("", "w", 0)
@example("m", "", 0)
def test_a_name_is_refused_or_makes_subjects_without_blanks_and_wildcards(model: str, word: str, shard: int) -> None:
    try:
        made = every_subject(model, word, shard)
    except InvalidName:
        return
    assert all(LITERAL.fullmatch(subject) for subject in made)


@patient
@given(names, tokens, st.integers(0, 99))
def test_good_names_are_taken(model: str, word: str, shard: int) -> None:
    assert (subjects.model_name(model), subjects.token(word, "job")) == (model, word)
    assert len(every_subject(model, word, shard)) == len(set(every_subject(model, word, shard)))


@patient
@given(near_names)
@example("m\n")
def test_subjects_and_messages_agree_on_what_a_model_may_be_called(name: str) -> None:
    assert is_name(name) == is_decoded(dataclasses.replace(CHUNK, model=name))


@patient
@given(near_names)
@example("j\n")
def test_subjects_and_messages_agree_on_what_a_job_may_be_called(name: str) -> None:
    assert is_token(name) == is_decoded(dataclasses.replace(CHUNK, job=name))


@patient
@given(names, st.integers(0, 99))
def test_names_of_nats_streams_hold_no_dots(model: str, shard: int) -> None:
    for name in (subjects.online_stream(model, shard, 2), subjects.batch_stream(model)):
        assert re.fullmatch(r"[A-Za-z0-9_-]+", name)


def test_subjects_are_spelled_as_the_contract_says() -> None:
    assert every_subject("minilm", "x-1", 3) == [
        "hr.online.minilm.3.2",
        "hr.batch.minilm.x-1",
        "hr.results.x-1.3",
        "hr.control.x-1.drain",
        "hr.inbox.x-1",
        "hr.dead.minilm.online",
        "hr.dead.minilm.batch",
        "hr.cancel.minilm",
        "hr.fleet.minilm",
    ]
    assert subjects.batch_all("minilm") == "hr.batch.minilm.>"
    assert subjects.online_stream("minilm", 3, 2) == "HR_ONLINE_minilm_3_2"
    assert subjects.batch_stream("minilm") == "HR_BATCH_minilm"


@pytest.mark.parametrize("name", ["", "MiniLM", "mini.lm", "-m", "_m", "m" * 65, "m m", "m*", "m>", "münchen", "m\n"])
def test_a_bad_model_name_is_refused_with_what_would_do(name: str) -> None:
    with pytest.raises(InvalidName, match=r"model name .* will not do: use 1 to 64 of a-z"):
        subjects.model_name(name)


def test_a_bad_token_is_refused_by_what_it_names() -> None:
    with pytest.raises(InvalidName, match=r"job 'a\.b' will not do"):
        subjects.batch("minilm", "a.b")
    with pytest.raises(InvalidName, match="worker '' will not do"):
        subjects.control("", "status")


@patient
@given(reply_subjects)
def test_inboxes_and_results_can_be_replied_to(subject: str) -> None:
    assert subjects.is_reply_to(subject)


@patient
@given(tokens, st.integers(0, 2**31))
def test_what_this_package_makes_for_replies_can_be_replied_to(word: str, number: int) -> None:
    assert subjects.is_reply_to(f"{subjects.inbox(word)}.c.{number}.r")
    assert subjects.is_reply_to(subjects.results(word, number))


@pytest.mark.parametrize(
    "subject",
    [
        "hr.inbox",
        "hr.inbox.a",
        "hr.inboxes.a.b",
        "hr.inbox.a..b",
        "hr.inbox.a.",
        ".hr.inbox.a.b",
        "hr.inbox.a.*",
        "hr.inbox.a.>",
        "hr.inbox.a.b\n",
        "hr.inbox.a b.c",
        "hr.inbox.a.b.c.d.e.f.g",
        "hr.inbox.a." + "b" * 65,
        "HR.inbox.a.b",
        "hr.online.minilm.0.0",
        "hr.dead.minilm.batch",
        "x.hr.inbox.a.b",
        "$JS.API.STREAM.PURGE.HR_DEAD",
    ],
)
def test_nothing_else_can_be_replied_to(subject: str) -> None:
    assert not subjects.is_reply_to(subject)


def is_name(name: str) -> bool:
    try:
        subjects.model_name(name)
    except InvalidName:
        return False
    return True


def is_token(name: str) -> bool:
    try:
        subjects.token(name, "job")
    except InvalidName:
        return False
    return True


def is_decoded(chunk: Chunk) -> bool:
    try:
        decode_chunk(encode_chunk(chunk))
    except DecodeError:
        return False
    return True


def test_the_name_of_a_nats_stream_says_whose_queue_it_is() -> None:
    assert subjects.queue_of(subjects.online_stream("my_model_1", 3, 12)) == ("my_model_1", "online")
    assert subjects.queue_of(subjects.batch_stream("my_model_1")) == ("my_model_1", "batch")
    assert subjects.queue_of("HR_RESULTS") is None
    assert subjects.queue_of("HR_ONLINE_m_x_0") is None
