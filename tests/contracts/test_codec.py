import dataclasses
import re
import tracemalloc
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pytest
from headrace_contracts import (
    Cancel,
    Chunk,
    DecodeError,
    ErrorReply,
    ModelSpec,
    Options,
    PairTemplate,
    Presence,
    Reply,
    decode_cancel,
    decode_chunk,
    decode_presence,
    decode_reply,
    decode_spec,
    encode_cancel,
    encode_chunk,
    encode_presence,
    encode_reply,
    encode_spec,
)
from headrace_contracts.limits import MAX_CANCEL_IDS
from hypothesis import given, settings
from hypothesis import strategies as st

from .strategies import cancels, chunks, errors, noise, patient, presences, results, specs

Message: TypeAlias = Chunk | Reply | ErrorReply | Cancel | Presence | ModelSpec
Decode: TypeAlias = Callable[[bytes], Message]
DECODERS: tuple[Decode, ...] = (decode_chunk, decode_reply, decode_cancel, decode_presence, decode_spec)
MIB = 1024 * 1024
CHUNK = Chunk(
    id="c1",
    task="embed",
    model="minilm",
    fingerprint="0123abcd",
    lengths=np.array([2, 1], np.uint32),
    token_ids=np.array([5, 6, 7], np.uint32),
)


def encode(message: Message) -> bytes:
    if isinstance(message, Chunk):
        return encode_chunk(message)
    if isinstance(message, Cancel):
        return encode_cancel(message)
    if isinstance(message, Presence):
        return encode_presence(message)
    return encode_spec(message) if isinstance(message, ModelSpec) else encode_reply(message)


def decoder_of(message: Message) -> Decode:
    if isinstance(message, Chunk):
        return decode_chunk
    if isinstance(message, Cancel):
        return decode_cancel
    if isinstance(message, Presence):
        return decode_presence
    return decode_spec if isinstance(message, ModelSpec) else decode_reply


def bits(message: Message) -> dict[str, Any]:
    """All that a message holds, arrays as dtype, shape and bytes."""
    fields = ((field.name, getattr(message, field.name)) for field in dataclasses.fields(message))
    return {
        name: (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
        for name, value in fields
    }


def settle(decode: Decode, data: bytes) -> None:
    """Decode to a message that can travel on, or to a DecodeError; anything else fails the test."""
    try:
        message = decode(data)
    except DecodeError:
        return
    assert bits(decode(encode(message))) == bits(message)


def peak_of(decode: Decode, data: bytes) -> int:
    """Bytes allocated at most while `data` is decoded or refused."""
    tracemalloc.start()
    try:
        settle(decode, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


any_message = st.one_of(chunks(max_items=4, max_length=4), results(), errors, cancels, presences, specs())

# -- round trips


@patient
@given(chunks())
def test_a_chunk_comes_back_as_it_was(chunk: Chunk) -> None:
    assert bits(decode_chunk(encode_chunk(chunk))) == bits(chunk)


@patient
@given(results())
def test_a_result_comes_back_bit_for_bit(reply: Reply) -> None:
    assert bits(decode_reply(encode_reply(reply))) == bits(reply)


@patient
@given(errors)
def test_an_error_comes_back_as_it_was(reply: ErrorReply) -> None:
    assert decode_reply(encode_reply(reply)) == reply


@patient
@given(cancels)
def test_a_cancel_comes_back_as_it_was(cancel: Cancel) -> None:
    assert decode_cancel(encode_cancel(cancel)) == cancel


@patient
@given(presences)
def test_a_presence_comes_back_as_it_was(presence: Presence) -> None:
    assert decode_presence(encode_presence(presence)) == presence


def test_a_cancel_of_more_ids_than_the_limit_is_refused() -> None:
    ids = tuple(f"c{number}" for number in range(MAX_CANCEL_IDS + 1))
    assert decode_cancel(encode_cancel(Cancel(ids[1:]))).ids == ids[1:]
    with pytest.raises(DecodeError, match=f"length <= {MAX_CANCEL_IDS}"):
        decode_cancel(encode_cancel(Cancel(ids)))


@patient
@given(specs())
def test_a_spec_comes_back_as_it_was(spec: ModelSpec) -> None:
    assert decode_spec(encode_spec(spec)) == spec


def test_payloads_of_half_precision_nans_survive() -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    nans = patterns[np.isnan(patterns.view(np.float16))]
    reply = dataclasses.replace(result(), rows=nans.view(np.float16).reshape(1, -1), dim=len(nans), dtype="f16")
    decoded = decode_reply(encode_reply(reply))
    assert isinstance(decoded, Reply)
    assert decoded.rows.view(np.uint16).tolist() == [nans.tolist()]


def test_prompts_may_be_any_mapping() -> None:
    frozen = dataclasses.replace(spec(), prompts=MappingProxyType({"query": "q: "}))
    assert decode_spec(encode_spec(frozen)).prompts == {"query": "q: "}


@pytest.mark.parametrize("order", [">u4", "<i8", "<u4"])
def test_arrays_of_another_byte_order_or_width_are_written_as_the_contract_says(order: str) -> None:
    chunk = dataclasses.replace(CHUNK, token_ids=CHUNK.token_ids.astype(order), lengths=CHUNK.lengths.astype(order))
    assert encode_chunk(chunk) == encode_chunk(CHUNK)


def test_arrays_with_gaps_are_written_without_them() -> None:
    gaps = np.array([5, 0, 6, 0, 7, 0], np.uint32)[::2]
    assert encode_chunk(dataclasses.replace(CHUNK, token_ids=gaps)) == encode_chunk(CHUNK)


def test_no_skip_takes_no_bytes() -> None:
    skipping = dataclasses.replace(CHUNK, options=Options(skip=1))
    assert b"skip" in encode_chunk(skipping)
    assert b"skip" not in encode_chunk(CHUNK)


def test_sequences_are_the_token_ids_cut_by_the_lengths() -> None:
    assert [ids.tolist() for ids in decode_chunk(encode_chunk(CHUNK)).sequences()] == [[5, 6], [7]]


# -- views


@patient
@given(chunks())
def test_the_arrays_of_a_chunk_are_read_only_views_of_the_message(chunk: Chunk) -> None:
    data = encode_chunk(chunk)
    decoded = decode_chunk(data)
    for array in (decoded.lengths, decoded.token_ids, decoded.segment_ids, *decoded.sequences()):
        if array is not None:
            assert np.shares_memory(array, np.frombuffer(data, np.uint8))
            assert not array.flags.writeable


@patient
@given(results())
def test_the_rows_of_a_reply_are_a_read_only_view_of_the_message(reply: Reply) -> None:
    data = encode_reply(reply)
    decoded = decode_reply(data)
    assert isinstance(decoded, Reply)
    assert np.shares_memory(decoded.rows, np.frombuffer(data, np.uint8))
    assert not decoded.rows.flags.writeable


def test_decoding_a_large_chunk_allocates_next_to_nothing() -> None:
    data = encode_chunk(large(MIB))
    tracemalloc.start()
    try:
        chunk = decode_chunk(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert chunk.num_tokens == MIB
    assert peak < MIB // 16


# -- whatever comes in


@patient
@given(st.binary(max_size=300))
def test_random_bytes_are_a_message_or_an_error(data: bytes) -> None:
    for decode in DECODERS:
        settle(decode, data)


@patient
@given(any_message, st.data())
def test_every_truncation_is_refused(message: Message, data: st.DataObject) -> None:
    raw = encode(message)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    with pytest.raises(DecodeError):
        decoder_of(message)(cut)


@patient
@given(any_message, st.binary(min_size=1, max_size=9))
def test_bytes_after_the_message_are_refused(message: Message, tail: bytes) -> None:
    if isinstance(message, ModelSpec):
        tail = b"," + tail  # JSON may end in blanks
    with pytest.raises(DecodeError):
        decoder_of(message)(encode(message) + tail)


@settings(patient, max_examples=300)
@given(any_message, st.data())
def test_a_mutated_message_is_a_message_or_an_error(message: Message, data: st.DataObject) -> None:
    raw = encode(message)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw)))
        stop = data.draw(st.integers(start, min(start + 4, len(raw))))
        raw = raw[:start] + data.draw(st.binary(max_size=4)) + raw[stop:]
    for decode in DECODERS:
        settle(decode, raw)


atoms = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=3),
    max_leaves=6,
)


@settings(patient, max_examples=300)
@given(st.one_of(chunks(max_items=3, max_length=3), results(), errors), values, st.data())
def test_any_value_in_any_field_is_a_message_or_an_error(message: Message, value: object, data: st.DataObject) -> None:
    fields = msgspec.msgpack.decode(encode(message))
    fields[data.draw(st.sampled_from([*fields, "extra"]))] = value
    settle(decoder_of(message), msgspec.msgpack.encode(fields))


@settings(patient, max_examples=200)
@given(specs(), st.data())
def test_any_json_value_in_any_field_is_a_spec_or_an_error(spec: ModelSpec, data: st.DataObject) -> None:
    fields = msgspec.json.decode(encode_spec(spec))
    atom = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    fields[data.draw(st.sampled_from([*fields, "extra"]))] = data.draw(atom | st.lists(atom, max_size=3))
    settle(decode_spec, msgspec.json.encode(fields))


CLAIMS = {"array32": b"\xdd", "map32": b"\xdf", "bin32": b"\xc6", "str32": b"\xdb", "ext32": b"\xc9"}
CHUNK_KEYS = ("v", "id", "task", "n", "len", "tok", "typ", "opt", "job", "seq", "extra")
REPLY_KEYS = ("v", "id", "n", "dtype", "vec", "bad", "usage", "error", "extra")


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claimed_size_costs_nothing(claim: bytes) -> None:
    huge = claim + b"\xff" * 4
    places = [(decode, b"") for decode in (decode_chunk, decode_reply)]
    places += [(decode_chunk, b"\x81" + msgspec.msgpack.encode(key)) for key in CHUNK_KEYS]
    places += [(decode_reply, b"\x81" + msgspec.msgpack.encode(key)) for key in REPLY_KEYS]
    places += [(decode_reply, b"\x81\xa3bad\x91"), (decode_reply, b"\x81\xa3bad\x91\x93\x00")]
    for decode, before in places:
        with pytest.raises(DecodeError):
            decode(before + huge)
        assert peak_of(decode, before + huge) < MIB


def test_a_claimed_size_that_the_message_half_holds_costs_no_more_than_the_message() -> None:
    halves = b"\x81\xa3bad\xdd\x00\x10\x00\x00" + b"\x93\x00\xa7invalid\xa0" * 100
    assert peak_of(decode_reply, halves) < MIB


@pytest.mark.parametrize("depth", [100, 100_000])
@pytest.mark.parametrize("open_", [b"\x91", b"\x81\xa1a", b"\x81\xa3bad", b"\x81\xa3opt", b"\x81\xa5usage", b"\xc1"])
@pytest.mark.parametrize("before", [b"", b"\x81\xa3opt", b"\x81\xa3bad", b"\x81\xa5extra"])
def test_deep_nesting_is_refused(before: bytes, open_: bytes, depth: int) -> None:
    for decode in (decode_chunk, decode_reply):
        data = before + open_ * depth
        with pytest.raises(DecodeError):
            decode(data)
        assert peak_of(decode, data) < MIB


@pytest.mark.parametrize("open_", [b"[", b'{"a":', b'{"prompts":', b'{"tasks":', b'{"tasks":[', b'{"extra":'])
def test_deep_nesting_of_json_is_refused(open_: bytes) -> None:
    for data in (open_ * 100_000, open_ + b"[" * 100_000):
        with pytest.raises(DecodeError):
            decode_spec(data)
        assert peak_of(decode_spec, data) < MIB


@pytest.mark.parametrize(
    "data",
    [b'{"v":' + b"9" * 5000 + b"}", b'{"v":1e999}', b'{"source":"\\ud800"}', b"\xff\xfe{}", b"NaN", b"null", b""],
)
def test_json_that_is_no_spec_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_spec(data)


def test_lengths_are_added_in_64_bits() -> None:
    wrapped = dataclasses.replace(CHUNK, lengths=np.array([2**32 - 1, 1, 3], np.uint32))
    with pytest.raises(DecodeError, match="len adds up to 4294967299 tokens but tok holds 3"):
        decode_chunk(encode_chunk(wrapped))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0])
def test_times_are_finite_and_not_negative(number: float) -> None:
    usage = dataclasses.replace(result().usage, queue_ms=number)
    with pytest.raises(DecodeError, match="queue_ms"):
        decode_reply(encode_reply(dataclasses.replace(result(), usage=usage)))


def test_only_an_error_may_lack_the_id_of_its_chunk() -> None:
    with pytest.raises(DecodeError, match="id is empty"):
        decode_reply(encode_reply(dataclasses.replace(result(), id="")))


def test_a_default_prompt_is_one_of_the_prompts() -> None:
    with pytest.raises(DecodeError, match="default_prompt 'passage' is none of the prompts"):
        decode_spec(encode_spec(dataclasses.replace(spec(), default_prompt="passage")))


def test_a_default_dtype_is_one_of_the_dtypes() -> None:
    with pytest.raises(DecodeError, match=r"default_dtype 'i8' is none of the dtypes \['f32'\]"):
        decode_spec(encode_spec(dataclasses.replace(spec(), default_dtype="i8")))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{document}", "{query} 0 times, not 1"),
        ("{query} or {query} in {document}", "{query} 2 times, not 1"),
        ("{instruction} {instruction} {query} {document}", "{instruction} 2 times, not 1"),
        ("{query}", "{document} 0 times, not 1"),
        ("{document} {query} {document}", "{document} 2 times, not 1"),
        ("{document} {query}", "does not end with {document}"),
        ("{query} {document}\n", "does not end with {document}"),
    ],
)
def test_a_body_of_pairs_has_a_place_for_each_text_and_the_document_last(body: str, reason: str) -> None:
    template = PairTemplate(prefix="", body=body, suffix="")
    with pytest.raises(DecodeError, match=re.escape(reason)):
        decode_spec(encode_spec(dataclasses.replace(spec(), pair_template=template)))


def test_other_braces_in_a_body_are_text() -> None:
    template = PairTemplate(prefix="{", body='{"q": "{query}", {other} {} {Query} {document}', suffix="{query}")
    templated = dataclasses.replace(spec(), pair_template=template)
    assert decode_spec(encode_spec(templated)) == templated


def large(num_tokens: int) -> Chunk:
    return dataclasses.replace(
        CHUNK, lengths=np.array([num_tokens], np.uint32), token_ids=noise(1, 4 * num_tokens).view(np.uint32)
    )


def result() -> Reply:
    data = msgspec.msgpack.encode(
        {
            "v": 1,
            "id": "c1",
            "worker": "w",
            "n": 1,
            "dim": 1,
            "dtype": "f32",
            "vec": b"\0\0\x80\x3f",
            "bad": [],
            "usage": {"tokens": 1, "queue_ms": 0, "run_ms": 0, "batch_tokens": 1},
        }
    )
    reply = decode_reply(data)
    assert isinstance(reply, Reply)
    return reply


def spec() -> ModelSpec:
    return ModelSpec(
        name="minilm",
        source="here",
        tasks=("embed",),
        dim=384,
        dtypes=("f32",),
        default_dtype="f32",
        compute_dtype="float32",
        max_length=512,
        max_length_source="config.json",
        pooling="mean",
        include_prompt=True,
        normalize=True,
        prompts={"query": "q: "},
        default_prompt=None,
        pair_template=None,
        vocab_size=30522,
        num_segments=2,
        fingerprint="0123abcd",
        tokenizer="0123abcd",
        max_chunk_tokens=1024,
        max_chunk_items=100,
    )
