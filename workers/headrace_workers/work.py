"""From a delivery to work: everything that is checked before a chunk may queue for the device.

Knows the limits of the model and which error code each breach gets. Does not know NATS, nor what happens to a refusal:
answer.py sends it. Bad items are set aside here, so that one of them never fails the others.
"""

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
from headrace_contracts import (
    BadItem,
    Chunk,
    DecodeError,
    Envelope,
    ErrorCode,
    ModelSpec,
    Task,
    TokenIds,
    decode_chunk,
)
from headrace_contracts.headers import REQUEST, name_in
from headrace_engine import RaggedBatch, pack
from numpy.typing import NDArray

from headrace_workers.delivery import Delivery

_Scalar = TypeVar("_Scalar", np.uint32, np.uint8)

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2})(?:-|$)")
_SAMPLED = 1


class Refused(Exception):
    """A chunk of which nothing will run.

    Attributes:
        code: the error code for its producer.
        text: what to do about it.
        chunk: the chunk, where it could be read.
        is_poison: whether it must be kept for people to look at.
    """

    def __init__(self, code: ErrorCode, text: str, *, chunk: Chunk | None = None, is_poison: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.chunk = chunk
        self.is_poison = is_poison

    @property
    def chunk_id(self) -> str:
        """The chunk's, or empty."""
        return "" if self.chunk is None else self.chunk.id

    @property
    def task(self) -> Task | None:
        """What was asked."""
        return None if self.chunk is None else self.chunk.task


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """A chunk that may run.

    Attributes:
        delivery: the message it came in, to be settled when it is answered.
        envelope: its headers.
        chunk: its body.
        runnable: [m] indices of the sequences that can run.
        bad: the others, with the reason.
        num_tokens: tokens of the m sequences.
        has_failed: whether a step of it alone has raised.
    """

    delivery: Delivery
    envelope: Envelope
    chunk: Chunk
    runnable: NDArray[np.intp]
    bad: tuple[BadItem, ...]
    num_tokens: int
    has_failed: bool = False

    @property
    def tenant(self) -> str:
        """Whose it is; those who do not say are one tenant."""
        return self.envelope.tenant or ""

    @property
    def job(self) -> str | None:
        """The larger call or bulk job that it is a part of."""
        return self.chunk.job

    @property
    def trace_id(self) -> str | None:
        """Of its trace (W3C Trace Context), if its caller has it recorded."""
        found = None if self.envelope.traceparent is None else _TRACEPARENT.match(self.envelope.traceparent)
        return found[1] if found and int(found[2], 16) & _SAMPLED else None

    def is_late(self, now_ms: float) -> bool:
        """Whether its deadline passed."""
        return _is_late(self.envelope, now_ms)


def accept(
    delivery: Delivery, spec: ModelSpec, *, max_deliveries: int, now_ms: float, given_up: Container[str] = ()
) -> Work:
    """Check a delivery against the model's limits.

    Args:
        delivery: what came in.
        spec: of the model.
        max_deliveries: a chunk that was delivered more often is poison.
        now_ms: unix ms.
        given_up: ids of chunks that nobody waits for any more.

    Raises:
        Refused: nothing of it can run.
    """
    try:
        return _accept(delivery, spec, max_deliveries, now_ms, given_up)
    except DecodeError as error:
        raise Refused(ErrorCode.INVALID, str(error), is_poison=True) from None
    except Refused:
        raise
    except Exception as error:
        # Left unanswered it would be kept in progress for ever.
        raise Refused(ErrorCode.INTERNAL, f"This is a bug: {error!r}", is_poison=True) from error


def _accept(delivery: Delivery, spec: ModelSpec, max_deliveries: int, now_ms: float, given_up: Container[str]) -> Work:
    envelope = Envelope.from_headers(delivery.headers)
    chunk = decode_chunk(delivery.body)
    if chunk.id in given_up:
        raise cancelled(chunk)
    if _is_late(envelope, now_ms):
        raise expired(chunk)
    if delivery.count > max_deliveries:
        text = (
            f"delivered {delivery.count} times without an answer, max_deliveries is {max_deliveries}: it seems to end "
            "every worker that runs it, do not send it again"
        )
        raise Refused(ErrorCode.INTERNAL, text, chunk=chunk, is_poison=True)
    _check_chunk(chunk, spec)
    bad = _bad_items(chunk, spec)
    runnable = np.arange(chunk.num_sequences)
    if bad:
        runnable = np.setdiff1d(runnable, [item.index for item in bad])
    return Work(
        delivery=delivery,
        envelope=envelope,
        chunk=chunk,
        runnable=runnable,
        bad=bad,
        num_tokens=int(chunk.lengths[runnable].sum()) if bad else chunk.num_tokens,
    )


def _is_late(envelope: Envelope, now_ms: float) -> bool:
    return envelope.deadline_ms is not None and envelope.deadline_ms <= now_ms


def cancelled(chunk: Chunk) -> Refused:
    """The refusal of work that its caller gave up."""
    return Refused(ErrorCode.CANCELLED, "its caller gave it up before it could run", chunk=chunk)


def expired(chunk: Chunk) -> Refused:
    """The refusal of work that nobody waits for any more."""
    text = "its deadline passed before it could run: allow more time, or start more workers"
    return Refused(ErrorCode.EXPIRED, text, chunk=chunk)


def request_id(delivery: Delivery, chunk: Chunk | None) -> str | None:
    """What the call is called that a chunk is a part of (wire.md, section 6); None if the message does not say."""
    named = name_in(delivery.headers, REQUEST)
    return named if named is not None or chunk is None else chunk.job or chunk.id


def prepare(works: tuple[Work, ...]) -> RaggedBatch:
    """Pack the runnable sequences of all works, in their order, into one ragged batch."""
    sequences: list[TokenIds] = []
    segments: list[NDArray[np.uint8]] = []
    skips: list[int] = []
    has_segments = any(work.chunk.segment_ids is not None for work in works)
    for work in works:
        sequences += _runnable(work, work.chunk.token_ids)
        skips += [work.chunk.options.skip] * len(work.runnable)
        if has_segments:
            ids = work.chunk.segment_ids
            segments += _runnable(work, np.zeros(work.chunk.num_tokens, np.uint8) if ids is None else ids)
    return pack(sequences, segments if has_segments else None, skips if any(skips) else None)


def _runnable(work: Work, flat: NDArray[_Scalar]) -> list[NDArray[_Scalar]]:
    # By hand: np.split takes longer than the rest of a short query's way through here.
    bounds = list(accumulate(work.chunk.lengths.tolist(), initial=0))
    parts = [flat[first:last] for first, last in pairwise(bounds)]
    return parts if not work.bad else [parts[i] for i in work.runnable]


def _check_chunk(chunk: Chunk, spec: ModelSpec) -> None:
    """Refuse a chunk that was not made for this model or within its limits."""
    if chunk.model != spec.name or chunk.fingerprint != spec.fingerprint:
        asked, served = f"{chunk.model}/{chunk.fingerprint}", f"{spec.name}/{spec.fingerprint}"
        text = f"made for {asked}, this worker serves {served}: read the ModelSpec anew and tokenise for it"
        raise Refused(ErrorCode.MODEL_MISMATCH, text, chunk=chunk)
    impossible = _impossible(chunk, spec)
    if impossible is not None:
        raise Refused(ErrorCode.INVALID, impossible, chunk=chunk)
    if chunk.num_tokens > spec.max_chunk_tokens:
        text = f"{chunk.num_tokens} tokens in a chunk: max_chunk_tokens is {spec.max_chunk_tokens}: send several chunks"
        raise Refused(ErrorCode.TOO_LONG, text, chunk=chunk)
    if chunk.num_sequences > spec.max_chunk_items:
        text = f"{chunk.num_sequences} items in a chunk: max_chunk_items is {spec.max_chunk_items}: send several chunks"
        raise Refused(ErrorCode.TOO_LONG, text, chunk=chunk)


def _impossible(chunk: Chunk, spec: ModelSpec) -> str | None:
    """What the chunk asks for that the model cannot do."""
    options = chunk.options
    if chunk.task not in spec.tasks:
        return f"task {chunk.task!r}: {spec.name} can {', '.join(spec.tasks)}: ask for that, or ask another model"
    if options.dtype not in spec.dtypes:
        return f"opt.dtype {options.dtype!r}: {spec.name} replies in {', '.join(spec.dtypes)}: ask for one of these"
    if options.dim is not None and options.dim > spec.dim:
        return f"opt.dim {options.dim}: rows of {spec.name} have {spec.dim} dimensions: ask for no more"
    if options.skip and spec.include_prompt:
        return f"opt.skip {options.skip}: {spec.name} leaves no prompt out of the pooling: leave opt.skip out"
    return None


def _bad_items(chunk: Chunk, spec: ModelSpec) -> tuple[BadItem, ...]:
    """The sequences that the model cannot run, each with the reason and what to do, in limits.MAX_BAD_TEXT bytes."""
    if _are_all_good(chunk, spec):
        return ()
    bad: dict[int, BadItem] = {}
    for i in map(int, np.flatnonzero(chunk.lengths > spec.max_length)):
        text = f"{chunk.lengths[i]} tokens: max_length is {spec.max_length}: truncate or split the text"
        bad[i] = BadItem(i, ErrorCode.TOO_LONG, text)
    for i in map(int, np.flatnonzero(chunk.lengths <= chunk.options.skip)):
        none_left = f"opt.skip {chunk.options.skip} leaves none of them to pool"
        text = f"{chunk.lengths[i]} tokens: {none_left}: add text, or lower opt.skip"
        bad.setdefault(i, BadItem(i, ErrorCode.INVALID, text))
    for i, largest in _outside(chunk, chunk.token_ids, spec.vocab_size):
        text = f"token id {largest}: the vocabulary ends at {spec.vocab_size - 1}: take the ModelSpec's tokenizer"
        bad.setdefault(i, BadItem(i, ErrorCode.INVALID, text))
    if chunk.segment_ids is not None:
        for i, largest in _outside(chunk, chunk.segment_ids, spec.num_segments):
            text = f"segment id {largest}: the last one of the model is {spec.num_segments - 1}: send none above it"
            bad.setdefault(i, BadItem(i, ErrorCode.INVALID, text))
    return tuple(bad.values())


def _are_all_good(chunk: Chunk, spec: ModelSpec) -> bool:
    """Whether no sequence need be looked at on its own: so it is with nearly all chunks."""
    return bool(
        chunk.lengths.max() <= spec.max_length
        and chunk.lengths.min() > chunk.options.skip
        and chunk.token_ids.max() < spec.vocab_size
        and (chunk.segment_ids is None or chunk.segment_ids.max() < spec.num_segments)
    )


def _outside(chunk: Chunk, ids: NDArray[_Scalar], bound: int) -> list[tuple[int, int]]:
    """The sequences with an id at or above the bound, each with its largest."""
    if int(ids.max()) < bound:
        return []
    firsts = np.cumsum(chunk.lengths, dtype=np.int64) - chunk.lengths
    largest = np.maximum.reduceat(ids, firsts)
    return [(int(i), int(largest[i])) for i in np.flatnonzero(largest >= bound)]
