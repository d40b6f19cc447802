"""Messages to bytes and back: MessagePack bodies, JSON for the ModelSpec that operators read in the KV bucket.

What operators say to workers is in control.py. Decoding copies nothing: arrays are views of the message. Every input
gives either a message or a DecodeError, in time and memory bounded by its own length. The layout is set out in
contracts/wire.md.
"""

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from headrace_contracts.errors import DecodeError, ErrorCode
from headrace_contracts.limits import MAX_CANCEL_IDS
from headrace_contracts.messages import (
    VERSION,
    BadItem,
    Cancel,
    Chunk,
    Dtype,
    ErrorReply,
    ModelSpec,
    Options,
    PairTemplate,
    Presence,
    Reply,
    Task,
    Usage,
    numpy_dtype,
    row_elements,
)

_Uint: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Skip: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Ms: TypeAlias = Annotated[float, Meta(ge=0, le=2.0**53)]
_Token: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}\\Z")]
_Name: TypeAlias = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}\\Z")]
_Hash: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{8,64}\\Z")]
_Text: TypeAlias = Annotated[str, Meta(max_length=4096)]

_TOKEN_ID = np.dtype("<u4")
_SEGMENT_ID = np.dtype("u1")


class _Options(Struct, forbid_unknown_fields=True, omit_defaults=True):
    dim: _Positive | UnsetType = UNSET
    dtype: Dtype = "f32"
    norm: bool = True
    raw: bool = False
    skip: _Skip = 0


class _Chunk(Struct, forbid_unknown_fields=True):
    v: int
    id: _Token
    task: Task
    model: _Name
    fp: _Hash
    n: _Positive
    len: memoryview
    tok: memoryview
    opt: _Options
    typ: memoryview | UnsetType = UNSET
    job: _Token | UnsetType = UNSET
    seq: _Uint | UnsetType = UNSET


class _Usage(Struct, forbid_unknown_fields=True):
    tokens: _Uint
    queue_ms: _Ms
    run_ms: _Ms
    batch_tokens: _Uint


class _Error(Struct, forbid_unknown_fields=True, omit_defaults=True):
    code: ErrorCode
    text: _Text
    retry_ms: _Uint | UnsetType = UNSET


class _Reply(Struct, forbid_unknown_fields=True):
    v: int
    id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{0,64}\\Z")]
    worker: _Token
    n: _Positive | UnsetType = UNSET
    dim: _Positive | UnsetType = UNSET
    dtype: Dtype | UnsetType = UNSET
    vec: memoryview | UnsetType = UNSET
    bad: list[tuple[_Uint, ErrorCode, _Text]] | UnsetType = UNSET
    usage: _Usage | UnsetType = UNSET
    error: _Error | UnsetType = UNSET


class _Cancel(Struct, forbid_unknown_fields=True):
    v: int
    ids: Annotated[tuple[_Token, ...], Meta(min_length=1, max_length=MAX_CANCEL_IDS)]


class _Presence(Struct, forbid_unknown_fields=True, omit_defaults=True):
    v: int
    worker: _Token
    every_ms: _Positive
    rate: _Uint | UnsetType = UNSET
    leaving: bool = False


class _PairTemplate(Struct, forbid_unknown_fields=True):
    prefix: str
    body: str
    suffix: str


class _Spec(Struct, forbid_unknown_fields=True):
    v: int
    name: _Name
    source: str
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1)]
    dim: _Positive
    dtypes: Annotated[tuple[Dtype, ...], Meta(min_length=1)]
    default_dtype: Dtype
    compute_dtype: str
    max_length: _Positive
    max_length_source: str
    pooling: str
    include_prompt: bool
    normalize: bool
    prompts: dict[str, str]
    default_prompt: str | None
    pair_template: _PairTemplate | None
    vocab_size: _Positive
    num_segments: _Positive
    fingerprint: _Hash
    tokenizer: _Hash
    max_chunk_tokens: _Positive
    max_chunk_items: _Positive
    shards: _Positive
    queues: _Positive


_chunks = msgspec.msgpack.Decoder(_Chunk)
_replies = msgspec.msgpack.Decoder(_Reply)
_cancels = msgspec.msgpack.Decoder(_Cancel)
_presences = msgspec.msgpack.Decoder(_Presence)
_specs = msgspec.json.Decoder(_Spec)
_msgpack = msgspec.msgpack.Encoder()
_json = msgspec.json.Encoder()


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode a chunk. Its arrays are written as they lie: uint32, little-endian."""
    options = chunk.options
    return _msgpack.encode(
        _Chunk(
            v=VERSION,
            id=chunk.id,
            task=chunk.task,
            model=chunk.model,
            fp=chunk.fingerprint,
            n=chunk.num_sequences,
            len=_raw(chunk.lengths, _TOKEN_ID),
            tok=_raw(chunk.token_ids, _TOKEN_ID),
            typ=UNSET if chunk.segment_ids is None else _raw(chunk.segment_ids, _SEGMENT_ID),
            opt=_Options(
                dim=_or_unset(options.dim),
                dtype=options.dtype,
                norm=options.normalize,
                raw=options.raw,
                skip=options.skip,
            ),
            job=_or_unset(chunk.job),
            seq=_or_unset(chunk.seq),
        )
    )


def decode_chunk(data: bytes) -> Chunk:
    """Decode a chunk; its arrays are read-only views of `data`.

    Raises:
        DecodeError: `data` is not a chunk of this version, or its lengths do not add up.
    """
    wire = _decode(_chunks, data)
    lengths = _array("len", wire.len, _TOKEN_ID)
    token_ids = _array("tok", wire.tok, _TOKEN_ID)
    segment_ids = None if wire.typ is UNSET else _array("typ", wire.typ, _SEGMENT_ID)
    if len(lengths) != wire.n:
        raise DecodeError(f"len holds {len(lengths)} lengths but n is {wire.n}")
    if np.count_nonzero(lengths) < len(lengths):
        raise DecodeError(f"len[{int(np.argmin(lengths))}] is 0: a sequence holds at least one token")
    total = sum(lengths.tolist())
    if total != len(token_ids):
        raise DecodeError(f"len adds up to {total} tokens but tok holds {len(token_ids)}")
    if segment_ids is not None and len(segment_ids) != len(token_ids):
        raise DecodeError(f"typ holds {len(segment_ids)} segment ids for {len(token_ids)} tokens")
    return Chunk(
        id=wire.id,
        task=wire.task,
        model=wire.model,
        fingerprint=wire.fp,
        lengths=lengths,
        token_ids=token_ids,
        segment_ids=segment_ids,
        options=Options(
            dim=_or_none(wire.opt.dim),
            dtype=wire.opt.dtype,
            normalize=wire.opt.norm,
            raw=wire.opt.raw,
            skip=wire.opt.skip,
        ),
        job=_or_none(wire.job),
        seq=_or_none(wire.seq),
    )


def encode_reply(reply: Reply | ErrorReply) -> bytes:
    """Encode the answer to a chunk."""
    if isinstance(reply, ErrorReply):
        error = _Error(code=reply.code, text=reply.text, retry_ms=_or_unset(reply.retry_ms))
        return _msgpack.encode(_Reply(v=VERSION, id=reply.id, worker=reply.worker, error=error))
    usage = reply.usage
    return _msgpack.encode(
        _Reply(
            v=VERSION,
            id=reply.id,
            worker=reply.worker,
            n=len(reply.rows),
            dim=reply.dim,
            dtype=reply.dtype,
            vec=_raw(reply.rows, numpy_dtype(reply.dtype)),
            bad=[(item.index, item.code, item.text) for item in reply.bad],
            usage=_Usage(usage.tokens, usage.queue_ms, usage.run_ms, usage.batch_tokens),
        )
    )


def decode_reply(data: bytes) -> Reply | ErrorReply:
    """Decode the answer to a chunk; its rows are a read-only view of `data`.

    Raises:
        DecodeError: `data` is not a reply of this version, or its rows do not add up.
    """
    wire = _decode(_replies, data)
    result = (wire.n, wire.dim, wire.dtype, wire.vec, wire.bad, wire.usage)
    if wire.error is not UNSET:
        if any(value is not UNSET for value in result):
            raise DecodeError("a reply holds either error or a result, not both")
        error = wire.error
        return ErrorReply(
            id=wire.id, code=error.code, text=error.text, retry_ms=_or_none(error.retry_ms), worker=wire.worker
        )
    return _result(wire)


def _result(wire: _Reply) -> Reply:
    n, dim, dtype, vec, bad, usage = wire.n, wire.dim, wire.dtype, wire.vec, wire.bad, wire.usage
    # Spelled out so that the type checker sees that none is missing after it.
    if n is UNSET or dim is UNSET or dtype is UNSET or vec is UNSET or bad is UNSET or usage is UNSET:
        raise DecodeError("a reply without error needs n, dim, dtype, vec, bad and usage")
    if not wire.id:
        raise DecodeError("id is empty: only an error reply may lack the id of its chunk")
    elements = row_elements(dtype, dim)
    rows = _array("vec", vec, numpy_dtype(dtype))
    if len(rows) != n * elements:
        raise DecodeError(f"vec holds {len(rows)} elements but n × row is {n} × {elements}")
    for index, _, _ in bad:
        if index >= n:
            raise DecodeError(f"bad names item {index} of a reply with {n} items")
    return Reply(
        id=wire.id,
        rows=rows.reshape(n, elements),
        dim=dim,
        dtype=dtype,
        bad=tuple(BadItem(*item) for item in bad),
        usage=Usage(tokens=usage.tokens, queue_ms=usage.queue_ms, run_ms=usage.run_ms, batch_tokens=usage.batch_tokens),
        worker=wire.worker,
    )


def encode_cancel(cancel: Cancel) -> bytes:
    """Encode which chunks are given up."""
    return _msgpack.encode(_Cancel(v=VERSION, ids=cancel.ids))


def decode_cancel(data: bytes) -> Cancel:
    """Decode which chunks are given up.

    Raises:
        DecodeError: `data` is not such a message of this version.
    """
    return Cancel(_decode(_cancels, data).ids)


def encode_presence(presence: Presence) -> bytes:
    """Encode that a worker is there."""
    return _msgpack.encode(
        _Presence(
            v=VERSION,
            worker=presence.worker,
            every_ms=presence.every_ms,
            rate=_or_unset(presence.rate),
            leaving=presence.leaving,
        )
    )


def decode_presence(data: bytes) -> Presence:
    """Decode that a worker is there.

    Raises:
        DecodeError: `data` is not such a message of this version.
    """
    wire = _decode(_presences, data)
    return Presence(worker=wire.worker, every_ms=wire.every_ms, rate=_or_none(wire.rate), leaving=wire.leaving)


def encode_spec(spec: ModelSpec) -> bytes:
    """Encode a ModelSpec as JSON."""
    fields = {name: getattr(spec, name) for name in ModelSpec.__slots__}
    # msgspec writes no mapping but dict.
    return _json.encode({"v": VERSION, **fields, "prompts": dict(spec.prompts)})


def decode_spec(data: bytes) -> ModelSpec:
    """Decode a ModelSpec.

    Raises:
        DecodeError: `data` is not a ModelSpec of this version.
    """
    wire = _decode(_specs, data)
    if wire.default_prompt is not None and wire.default_prompt not in wire.prompts:
        raise DecodeError(f"default_prompt {wire.default_prompt!r} is none of the prompts {sorted(wire.prompts)}")
    if wire.default_dtype not in wire.dtypes:
        raise DecodeError(f"default_dtype {wire.default_dtype!r} is none of the dtypes {list(wire.dtypes)}")
    fields = {name: getattr(wire, name) for name in ModelSpec.__slots__}
    return ModelSpec(**{**fields, "pair_template": _pair_template(wire.pair_template)})


def _pair_template(wire: _PairTemplate | None) -> PairTemplate | None:
    if wire is None:
        return None
    for name, allowed in (("{instruction}", {0, 1}), ("{query}", {1}), ("{document}", {1})):
        if wire.body.count(name) not in allowed:
            raise DecodeError(f"pair_template.body holds {name} {wire.body.count(name)} times, not {max(allowed)}")
    if not wire.body.endswith("{document}"):
        raise DecodeError("pair_template.body does not end with {document}: only what stands last can be cut")
    return PairTemplate(prefix=wire.prefix, body=wire.body, suffix=wire.suffix)


_W = TypeVar("_W", _Chunk, _Reply, _Cancel, _Presence, _Spec)


def _decode(decoder: msgspec.msgpack.Decoder[_W] | msgspec.json.Decoder[_W], data: bytes) -> _W:
    try:
        wire = decoder.decode(data)
    # RecursionError: deep nesting. UnicodeDecodeError is a ValueError, as msgspec's own errors are.
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not a message of this contract: {error}") from None
    if wire.v != VERSION:
        raise DecodeError(f"v is {wire.v}: this side speaks version {VERSION} of the wire contract")
    return wire


def _array(name: str, raw: memoryview, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if len(raw) % dtype.itemsize:
        raise DecodeError(f"{name} is {len(raw)} bytes long, not a multiple of {dtype.itemsize}")
    return np.frombuffer(raw, dtype=dtype)


def _raw(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> memoryview:
    # Through uint8: msgspec takes views of bytes only.
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8).data


_V = TypeVar("_V", int, str)


def _or_none(value: _V | UnsetType) -> _V | None:
    return None if value is UNSET else value


def _or_unset(value: _V | None) -> _V | UnsetType:
    return UNSET if value is None else value
