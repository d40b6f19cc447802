"""Records of jobs and shards: what is written is read, and nothing else is."""

import json
from dataclasses import replace
from typing import Any

import pytest
from headrace.bulk.card import Card
from headrace.bulk.cut import Cut, Span, Spans
from headrace.bulk.jobs.record import Checkpoint, JobRecord, Owner, ShardRecord, State, Tally
from headrace.errors import JobConflict, SinkError
from hypothesis import given
from hypothesis import strategies as st

from .job_records import CARD, job

_COUNT = st.integers(0, 2**63 - 1)
# With lone surrogates, which is how Python spells file names that are not UTF-8.
_TEXT = st.text(st.characters(), max_size=20)
_OPTIONS = st.dictionaries(_TEXT, st.none() | st.booleans() | st.integers() | _TEXT, max_size=4)
_STATES: list[State] = ["running", "paused", "cancelled", "done", "failed"]

_JOBS = st.builds(
    job,
    source=_TEXT,
    sink=_TEXT,
    corpus=_TEXT,
    card=st.builds(replace, st.just(CARD), prompt=_TEXT, dim=_COUNT),
    cut=st.builds(Cut, rows=_COUNT, characters=_COUNT),
    num_shards=_COUNT,
    num_rows=st.none() | _COUNT,
    options=_OPTIONS,
    state=st.sampled_from(_STATES),
    reason=st.none() | _TEXT,
    created_ms=_COUNT,
    changed_ms=_COUNT,
)
_SPANS = st.lists(
    st.integers(0, 1000).map(lambda window: Span(2 * window, 2 * window + 1, 16 * window, 16 * window + 8))
).map(Spans.of)
_OWNERS = st.builds(Owner, _TEXT, _TEXT, _COUNT, st.none() | _TEXT, st.none() | _COUNT)
_TALLIES = st.builds(Tally, *[_COUNT] * 6)
_SHARDS = st.builds(
    ShardRecord,
    shard=_COUNT,
    owner=st.none() | _OWNERS,
    beat=_COUNT,
    checkpoint=st.builds(Checkpoint, _SPANS, _TALLIES, st.booleans()),
    term=_COUNT,
    job_ms=_COUNT,
)


@given(_JOBS)
def test_a_job_that_is_written_is_read_as_it_was(record: JobRecord) -> None:
    assert JobRecord.from_json(record.to_json()) == record


@given(_SHARDS)
def test_a_shard_that_is_written_is_read_as_it_was(record: ShardRecord) -> None:
    assert ShardRecord.from_json(record.to_json()) == record


@pytest.mark.parametrize("depth", [900, 940, 960, 970, 975, 980, 985, 990, 5000])
def test_a_record_that_is_as_deep_as_can_just_be_read_is_none(depth: int) -> None:
    """To show it takes more of the stack than to read it."""
    deep = b'{"v": 1, "name": ' + b"[" * depth + b"]" * depth + b', "shard": ' + b"[" * depth + b"]" * depth + b"}"
    for read in (JobRecord.from_json, ShardRecord.from_json):
        with pytest.raises(JobConflict, match="cannot be read"):
            read(deep)
    with pytest.raises(SinkError, match="cannot be read"):
        Card.from_json(deep)


@pytest.mark.parametrize(
    ("field", "value"), [("dim", "8"), ("dim", True), ("normalize", 1), ("model", None), ("dtype", 4)]
)
def test_a_card_of_other_types_is_none(field: str, value: object) -> None:
    written = json.loads(CARD.to_json()) | {field: value}
    with pytest.raises(SinkError, match=f"{field} is of type {type(value).__name__}"):
        Card.from_json(json.dumps(written))


def _changed(written: bytes, path: str, value: object) -> bytes:
    whole: dict[str, Any] = json.loads(written)
    *outer, last = path.split(".")
    part = whole
    for name in outer:
        part = part[name]
    part[last] = value
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("v", 2, "v is 2, and this headrace knows 1"),
        ("v", True, "v is True"),
        ("name", 7, "name is 7, not of type str"),
        ("num_shards", True, "num_shards is True, not of type int"),
        ("num_shards", -1, "num_shards is -1, below 0"),
        ("num_rows", 1.5, "num_rows is 1.5"),
        ("cut", {"rows": 1}, r"cut has the fields \['rows'\]"),
        ("cut.rows", None, "rows is None"),
        ("card", {}, "is None, not of type"),
        ("card.dim", "384", "dim is '384', not of type int"),
        ("card.colour", "red", r"unknown fields \['colour'\]"),
        ("options", [], r"options is \[\]"),
        ("options.column", ["text"], r"option column is \['text'\]"),
        ("state", "sleeping", "state is 'sleeping', not one of cancelled, done, failed, paused, running"),
        ("reason", 3, "reason is 3"),
        ("colour", "red", r"unknown fields \['colour'\]"),
    ],
)
def test_a_job_that_is_not_quite_one_is_refused_by_the_field(path: str, value: object, message: str) -> None:
    with pytest.raises(JobConflict, match=message) as caught:
        JobRecord.from_json(_changed(job().to_json(), path, value))
    assert "headrace job rm" in str(caught.value)


SHARD = ShardRecord(1, Owner("ab", "mill", 42), 3, Checkpoint(Spans((Span(0, 2, 0, 9), Span(3, 4, 12, 15)))), 1, 7)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("v", None, "v is None"),
        ("owner", "me", "owner is 'me'"),
        ("owner", {"process": "ab"}, "owner has the fields"),
        ("owner.pid", "42", "pid is '42'"),
        ("spans", [[0, 1, 2]], "not four numbers"),
        ("spans", [[0, 1, 0, True]], "not four numbers"),
        ("spans", [[2, 1, 0, 3]], "does not run forwards"),
        ("spans", [[0, 1, 5, 3]], "does not run forwards"),
        ("spans", [[0, 2, 0, 9], [1, 3, 4, 12]], "overlaps the one before"),
        ("tally.rows", -3, "rows is -3"),
        ("tally.lost", 1, "tally has the fields"),
        ("done", 1, "done is 1"),
        ("beat", 1e3, "beat is 1000.0"),
    ],
)
def test_a_shard_that_is_not_quite_one_is_refused_by_the_field(path: str, value: object, message: str) -> None:
    with pytest.raises(JobConflict, match=message):
        ShardRecord.from_json(_changed(SHARD.to_json(), path, value))


@pytest.mark.parametrize("written", [b"", b"null", b"[]", b"{", b"\xff", b"7", b'{"v": 1}', b"[" * 100_000])
@pytest.mark.parametrize("kind", [JobRecord, ShardRecord])
def test_what_is_no_record_at_all_is_refused(kind: type[JobRecord | ShardRecord], written: bytes) -> None:
    with pytest.raises(JobConflict, match="cannot be read"):
        kind.from_json(written)


def test_an_absent_field_is_not_a_null_one() -> None:
    written = json.loads(job(num_rows=None).to_json())
    del written["num_rows"]
    with pytest.raises(JobConflict, match="num_rows is None"):
        JobRecord.from_json(json.dumps(written).encode())


def test_a_job_is_the_same_work_however_its_source_is_spelt_and_however_it_stands() -> None:
    other = job(source="/mnt/articles/*.parquet", state="failed", reason="x", created_ms=5, changed_ms=6, num_rows=None)
    assert job().differences(other) == []


def test_what_the_device_computes_in_does_not_make_it_other_work() -> None:
    assert job().differences(job(card=replace(CARD, compute_dtype="bfloat16"))) == []


def test_each_difference_is_named_with_what_is_there_and_what_is_wanted() -> None:
    other = job(
        sink="parquet:elsewhere",
        corpus="other",
        num_shards=4,
        cut=Cut(rows=5),
        card=replace(CARD, prompt="query: "),
        options={"column": "body", "id_column": None, "dedupe": True, "keep_text": True},
    )
    assert job().differences(other) == [
        "sink is 'parquet:vectors', this command has 'parquet:elsewhere'",
        "corpus is 'c0ffee', this command has 'other'",
        "num_shards is 3, this command has 4",
        "cut.rows is 8192, this command has 5",
        "column is 'text', this command has 'body'",
        "max_failed is 100, this command has None",
        "keep_text is None, this command has True",
        "card.prompt is '', this command has 'query: '",
    ]


def test_a_true_option_is_not_the_number_one() -> None:
    assert job(options={"n": True}).differences(job(options={"n": 1})) == ["n is True, this command has 1"]


@given(_TALLIES, _TALLIES)
def test_what_was_added_to_a_tally_can_be_taken_back(first: Tally, second: Tally) -> None:
    assert first.plus(second).minus(second) == first
    assert min(vars_of(first.minus(second))) >= 0


def vars_of(tally: Tally) -> list[int]:
    return [tally.rows, tally.written, tally.unchanged, tally.failed, tally.tokens, tally.retried]
