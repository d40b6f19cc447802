import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from headrace_contracts import (
    Cancel,
    Chunk,
    DecodeError,
    ErrorReply,
    ModelSpec,
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
from headrace_contracts.control import (
    Request,
    Status,
    decode_request,
    decode_status,
    encode_request,
    encode_status,
)
from msgspec import to_builtins

Message: TypeAlias = Chunk | Reply | ErrorReply | Cancel | Presence | ModelSpec | Request | Status

CONTRACTS = Path(__file__).parents[2] / "contracts"
VECTORS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((CONTRACTS / "vectors").glob("*.json"))}
VALID = [name for name, vector in VECTORS.items() if "fields" in vector]
INVALID = [name for name, vector in VECTORS.items() if "error" in vector]


def decode(vector: dict[str, Any]) -> Message:  # noqa: PLR0911 - one a kind of message
    data = bytes.fromhex(vector["hex"])
    match vector["kind"]:
        case "chunk":
            return decode_chunk(data)
        case "reply":
            return decode_reply(data)
        case "cancel":
            return decode_cancel(data)
        case "presence":
            return decode_presence(data)
        case "request":
            return decode_request(data)
        case "status":
            return decode_status(data)
        case _:
            return decode_spec(data)


def encode(message: Message) -> bytes:  # noqa: PLR0911 - one a kind of message
    match message:
        case Chunk():
            return encode_chunk(message)
        case Cancel():
            return encode_cancel(message)
        case Presence():
            return encode_presence(message)
        case ModelSpec():
            return encode_spec(message)
        case Request():
            return encode_request(message.wait_ms)
        case Status():
            return encode_status(message)
        case _:
            return encode_reply(message)


def fields_of(message: Message) -> dict[str, Any]:  # noqa: PLR0911 - one a kind of message
    """The message as its vector spells it."""
    match message:
        case Request() | Status():
            # Unlike msgspec's own, with defaults.
            return {name: to_builtins(getattr(message, name)) for name in message.__struct_fields__}
        case Chunk():
            return {"v": 1, **chunk_fields(message)}
        case Reply():
            return {"v": 1, **result_fields(message)}
        case ErrorReply():
            error = present({"code": message.code, "text": message.text, "retry_ms": message.retry_ms})
            return {"v": 1, "id": message.id, "worker": message.worker, "error": error}
        case Cancel():
            return {"v": 1, "ids": list(message.ids)}
        case Presence():
            return {"v": 1, **present(asdict(message))}
        case ModelSpec():
            return {"v": 1, **spec_fields(message)}


def spec_fields(spec: ModelSpec) -> dict[str, Any]:
    fields = {name: getattr(spec, name) for name in ModelSpec.__slots__}
    template = None if spec.pair_template is None else asdict(spec.pair_template)
    return fields | {"tasks": list(spec.tasks), "dtypes": list(spec.dtypes), "pair_template": template}


def chunk_fields(chunk: Chunk) -> dict[str, Any]:
    options = chunk.options
    opt = {"dim": options.dim, "dtype": options.dtype, "norm": options.normalize, "raw": options.raw}
    opt["skip"] = options.skip
    return present(
        {
            "id": chunk.id,
            "task": chunk.task,
            "model": chunk.model,
            "fp": chunk.fingerprint,
            "n": chunk.num_sequences,
            "len": chunk.lengths.tolist(),
            "tok": chunk.token_ids.tolist(),
            "opt": present(opt),
            "typ": None if chunk.segment_ids is None else chunk.segment_ids.tolist(),
            "job": chunk.job,
            "seq": chunk.seq,
        }
    )


def result_fields(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "id": reply.id,
        "worker": reply.worker,
        "n": len(reply.rows),
        "dim": reply.dim,
        "dtype": reply.dtype,
        "vec": reply.rows.tolist(),
        "bad": [[item.index, item.code, item.text] for item in reply.bad],
        "usage": {
            "tokens": usage.tokens,
            "queue_ms": usage.queue_ms,
            "run_ms": usage.run_ms,
            "batch_tokens": usage.batch_tokens,
        },
    }


def present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def test_there_are_vectors_of_every_kind_and_each_is_named_for_its_file() -> None:
    assert {VECTORS[name]["kind"] for name in VALID} == {VECTORS[name]["kind"] for name in INVALID}
    kinds = {"chunk", "reply", "cancel", "presence", "spec", "request", "status"}
    assert {vector["kind"] for vector in VECTORS.values()} == kinds
    assert all(vector["name"] == name for name, vector in VECTORS.items())
    assert all(name.startswith("invalid_") for name in INVALID)
    assert set(VALID).isdisjoint(INVALID)
    assert len(VALID) + len(INVALID) == len(VECTORS)


@pytest.mark.parametrize("name", VALID)
def test_a_valid_vector_decodes_to_its_fields(name: str) -> None:
    assert fields_of(decode(VECTORS[name])) == VECTORS[name]["fields"]


@pytest.mark.parametrize("name", VALID)
def test_a_valid_vector_is_what_our_encoder_writes_unless_it_says_otherwise(name: str) -> None:
    vector = VECTORS[name]
    assert (encode(decode(vector)).hex() == vector["hex"]) is vector.get("canonical", True)


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_vector_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(DecodeError, match=re.escape(VECTORS[name]["error"])):
        decode(VECTORS[name])


def test_the_sign_of_zero_and_subnormal_numbers_survive() -> None:
    reply = decode(VECTORS["reply_f32"])
    assert isinstance(reply, Reply)
    assert np.signbit(reply.rows[0]).tolist() == [False, True, False]
    assert reply.rows[1, 2] == np.finfo(np.float32).smallest_subnormal


def test_the_dump_in_wire_md_is_the_minimal_chunk() -> None:
    wire = (CONTRACTS / "wire.md").read_text("utf-8")
    dump = re.findall(r"^ {4}((?:[0-9a-f]{2} )+) +\S", wire, re.MULTILINE)
    assert "".join(dump).replace(" ", "") == VECTORS["chunk_minimal"]["hex"]


def test_wire_md_names_every_vector_that_is_valid() -> None:
    wire = (CONTRACTS / "wire.md").read_text("utf-8")
    assert [name for name in VALID if f"`{name}`" not in wire] == []


def test_wire_md_has_a_row_for_every_key() -> None:
    wire = (CONTRACTS / "wire.md").read_text("utf-8")
    described = {
        key for cell in re.findall(r"^\|([^|]*)\|", wire, re.MULTILINE) for key in re.findall(r"`(\w+)`", cell)
    }
    fields = [VECTORS[name]["fields"] for name in VALID]
    keys = (
        {key for part in fields for key in part}
        | VECTORS["spec_pair_template"]["fields"]["pair_template"].keys()
        | VECTORS["chunk_all_fields"]["fields"]["opt"].keys()
        | VECTORS["reply_f32"]["fields"]["usage"].keys()
        | VECTORS["status"]["fields"]["online"].keys()
        | VECTORS["status"]["fields"]["totals"].keys()
    )
    assert keys - described == set()
