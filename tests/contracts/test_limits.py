import numpy as np
import pytest
from headrace_contracts import DTYPES, BadItem, Chunk, Dtype, Envelope, ErrorCode, Reply, Usage, encode_chunk
from headrace_contracts.codec import encode_reply
from headrace_contracts.limits import MAX_BAD_TEXT, estimated_tokens, max_message_bytes, max_reply_items, min_pull_bytes
from headrace_contracts.messages import numpy_dtype, row_elements
from hypothesis import given
from hypothesis import strategies as st

from .sizes import LONGEST, SUBJECT, header_block, largest_chunk, largest_headers
from .strategies import chunks, envelopes, patient

# $JS.ACK.<domain>.<account hash>.<NATS stream>.<consumer>.<five numbers>.<random>, as long as nats-server writes it.
NUMBERS = ["9" * 20] * 5
ACK_SUBJECT = ".".join(["$JS.ACK", "d" * 32, "a" * 8, f"HR_ONLINE_{LONGEST}_99_99", "workers", *NUMBERS, "r" * 8])


@patient
@given(chunks(), envelopes)
def test_a_chunk_takes_at_least_four_bytes_a_token_and_no_more_than_its_limit(chunk: Chunk, envelope: Envelope) -> None:
    body = len(encode_chunk(chunk))
    assert body >= 4 * chunk.num_tokens
    limit = max_message_bytes(chunk.num_tokens, chunk.num_sequences)
    assert body + header_block(envelope.to_headers()) <= limit


@patient
@given(st.integers(1, 70_000), st.data())
def test_the_largest_chunk_fits_with_the_longest_names_and_headers(num_tokens: int, data: st.DataObject) -> None:
    num_sequences = data.draw(st.integers(1, min(num_tokens, 20_000)))
    body = len(encode_chunk(largest_chunk(num_tokens, num_sequences)))
    size = body + header_block(largest_headers(num_tokens))
    assert size <= max_message_bytes(num_tokens, num_sequences)
    assert len(SUBJECT) + len(ACK_SUBJECT) + size <= min_pull_bytes(num_tokens, num_sequences)


def test_more_tokens_and_more_items_take_more_bytes() -> None:
    assert max_message_bytes(1024, 100) == 5 * 1024 + 4 * 100 + 1536
    assert min_pull_bytes(1024, 100) == max_message_bytes(1024, 100) + 512


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [1, 384, 1024, 4096])
def test_a_reply_whose_items_are_all_bad_fits(dim: int, dtype: Dtype) -> None:
    payload = 256 * 1024
    items = max_reply_items(payload, dim, dtype)
    bad = tuple(BadItem(i, ErrorCode.MODEL_MISMATCH, "x" * MAX_BAD_TEXT) for i in range(items))
    assert payload // 2 < len(encode_reply(reply(items, dim, dtype, bad))) <= payload


@pytest.mark.parametrize(("dim", "dtype"), [(384, "f32"), (384, "f16"), (384, "i8"), (384, "b1"), (9, "b1")])
def test_the_items_of_a_full_row_of_floats_leave_room_for_every_other_reply(dim: int, dtype: Dtype) -> None:
    assert max_reply_items(2**20, dim) <= max_reply_items(2**20, dim, dtype)


def test_even_a_tiny_payload_takes_one_item() -> None:
    assert max_reply_items(100, 4096) == 1


def reply(items: int, dim: int, dtype: Dtype, bad: tuple[BadItem, ...]) -> Reply:
    return Reply(
        id=LONGEST,
        rows=np.zeros((items, row_elements(dtype, dim)), numpy_dtype(dtype)),
        dim=dim,
        dtype=dtype,
        bad=bad,
        usage=Usage(tokens=2**63 - 1, queue_ms=1.5, run_ms=1.5, batch_tokens=2**63 - 1),
        worker=LONGEST,
    )


@pytest.mark.parametrize(("lengths", "error"), [([10], 0.9), ([128], 0.2), ([512, 512], 0.05)])
def test_tokens_are_estimated_from_what_the_broker_counts(lengths: list[int], error: float) -> None:
    num_tokens = sum(lengths)
    chunk = Chunk(
        id="c" * 24,
        task="embed",
        model="m" * 20,
        fingerprint="f" * 32,
        lengths=np.array(lengths, np.uint32),
        token_ids=np.ones(num_tokens, np.uint32),
    )
    envelope = Envelope(reply_to="hr.inbox." + "c" * 22, tokens=num_tokens, msg_id="c" * 24, deadline_ms=10**12)
    stored = len(f"hr.online.{'m' * 20}.0.0") + header_block(envelope.to_headers()) + len(encode_chunk(chunk)) + 16
    for number in (1, 1000):
        assert estimated_tokens(number, number * stored) == pytest.approx(number * num_tokens, rel=error)


def test_a_message_is_estimated_at_one_token_at_least() -> None:
    assert estimated_tokens(3, 300) == 3
    assert estimated_tokens(0, 0) == 0
