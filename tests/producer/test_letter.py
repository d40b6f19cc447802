"""A dead letter says what is known of its chunk, whatever is in it."""

from datetime import UTC, datetime

import pytest
from headrace.letter import Letter
from headrace_contracts import encode_chunk, headers
from hypothesis import given
from hypothesis import strategies as st

from .letters import MODEL, REASON, chunk, letter_headers

WHEN = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
NOW_MS = int(WHEN.timestamp() * 1000)


def letter(found: dict[str, str] | None = None, body: bytes | None = None, priority: str = "batch") -> Letter:
    whole = encode_chunk(chunk()) if body is None else body
    return Letter.read(9, WHEN, f"hr.dead.{MODEL}.{priority}", letter_headers() if found is None else found, whole)


def test_all_that_a_worker_left_is_read() -> None:
    found = letter()
    assert (found.seq, found.when, found.model, found.priority) == (9, WHEN, MODEL, "batch")
    assert (found.reason, found.code, found.deliveries, found.place) == (REASON, "internal", "3", "HR_BATCH_minilm-12")
    assert (found.job, found.is_bulk, found.problem) == ("nightly", True, None)
    assert found.chunk is not None
    assert (found.chunk.id, found.chunk.seq, found.chunk.num_tokens) == ("0-c0ffee", 4, 5)


def test_a_bulk_chunk_goes_back_to_the_subject_of_its_shard() -> None:
    assert letter().subject == "hr.batch.minilm.nightly.7"


def test_a_callers_chunk_goes_back_to_where_its_client_sent_it() -> None:
    found = letter(letter_headers("hr.inbox.c11e47.3.r"))
    assert (found.subject, found.is_bulk, found.job) == ("hr.batch.minilm.c11e47", False, "nightly")


def test_an_online_chunk_goes_back_to_its_shard_and_queue() -> None:
    found = letter(letter_headers("hr.inbox.c11e47.3.r", "HR_ONLINE_mini_3_lm_0_3_1-99"), priority="online")
    assert found.subject == "hr.online.minilm.3.1"


@pytest.mark.parametrize("place", ["", "HR_ONLINE_minilm_0-9", "HR_BATCH_minilm-9", "HR_ONLINE_minilm_0_x-9"])
def test_where_an_online_chunk_came_from_may_be_unknown(place: str) -> None:
    found = letter_headers("hr.inbox.c11e47.3.r") | {headers.MSG_ID: place}
    assert letter(found, priority="online").subject is None


def test_what_worker_and_broker_added_is_not_published_again() -> None:
    found = letter_headers(deadline_ms=NOW_MS + 1, tenant="search", traceparent="00-ab") | {"Nats-Batch-Id": "b"}
    assert letter(found).again(NOW_MS) == {
        "Hr-Reply": "hr.results.nightly.7",
        "Hr-Tokens": "5",
        "Hr-Deadline": str(NOW_MS + 1),
        "Hr-Tenant": "search",
        "traceparent": "00-ab",
        "Nats-Msg-Id": f"dead-9-{NOW_MS}",
    }


def test_a_deadline_that_has_passed_is_left_out() -> None:
    assert headers.DEADLINE not in letter(letter_headers(deadline_ms=NOW_MS)).again(NOW_MS)


@given(
    st.dictionaries(
        st.sampled_from(["Hr-Reply", "Hr-Reason", "Hr-Deliveries", "Hr-Deadline", "Nats-Msg-Id", "x"]), st.text()
    ),
    st.binary(max_size=50),
    st.text(max_size=20),
    st.sampled_from(["online", "batch", "later", ""]),
)
def test_nothing_in_a_letter_is_taken_for_granted(found: dict[str, str], body: bytes, model: str, class_: str) -> None:
    read = Letter.read(1, WHEN, f"hr.dead.{model}.{class_}", found, body)
    assert read.chunk is None
    assert read.problem
    assert (read.model, bool(read.reason), isinstance(read.code, str)) == (model, True, True)
    assert read.job is None or read.is_bulk
    assert read.again(NOW_MS)["Nats-Msg-Id"] == f"dead-1-{NOW_MS}"


def test_a_letter_without_headers_says_that_it_has_no_reason() -> None:
    read = Letter.read(1, WHEN, "hr.dead.minilm.batch", None, b"")
    assert (read.reason, read.code, read.subject) == ("unknown: no reason was given", "unknown", None)
