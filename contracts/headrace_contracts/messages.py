"""The messages of wire contract v1, as Python sees them.

Knows fields, shapes and units. Does not know bytes (codec.py) nor where a message travels (subjects.py).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from headrace_contracts.errors import ErrorCode

VERSION = 1

Task: TypeAlias = Literal["embed", "score"]
Dtype: TypeAlias = Literal["f32", "f16", "i8", "b1"]
Priority: TypeAlias = Literal["online", "batch"]
WorkerState: TypeAlias = Literal["serving", "draining", "drained"]
TASKS: tuple[Task, ...] = get_args(Task)
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
# Announcements that may be lost before a worker is taken for gone.
_SILENCES = 3

TokenIds: TypeAlias = NDArray[np.uint32]
SegmentIds: TypeAlias = NDArray[np.uint8]
Rows: TypeAlias = NDArray[np.generic]

_NUMPY: dict[Dtype, str] = {"f32": "<f4", "f16": "<f2", "i8": "i1", "b1": "u1"}


def numpy_dtype(dtype: Dtype) -> np.dtype[np.generic]:
    """The little-endian NumPy dtype of one element of a row; `b1` packs eight dimensions into a byte."""
    return np.dtype(_NUMPY[dtype])


def row_elements(dtype: Dtype, dim: int) -> int:
    """How many elements of `numpy_dtype(dtype)` hold one row of `dim` dimensions."""
    return (dim + 7) // 8 if dtype == "b1" else dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller wants done to the rows of a chunk.

    Attributes:
        dim: leading dimensions to keep (Matryoshka, arXiv 2205.13147); None keeps all.
        dtype: element type of the reply.
        normalize: scale rows to length one, after the cut.
        raw: scores without the model's final activation.
        skip: leading tokens of every sequence that take no part in the pooling: those of the prompt, for models that
            leave it out.
    """

    dim: int | None = None
    dtype: Dtype = "f32"
    normalize: bool = True
    raw: bool = False
    skip: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Token sequences that travel, run and are answered together.

    Attributes:
        id: names the chunk in replies, logs and dead letters; the same on every retry.
        task: what to compute.
        model: served name of the model.
        fingerprint: of the ModelSpec that the producer tokenised for.
        lengths: [n] uint32, tokens of each sequence; none is zero.
        token_ids: [sum(lengths)] uint32, the sequences back to back.
        segment_ids: [sum(lengths)] uint8 for models that tell the parts of a pair apart, else None.
        options: what is done to the rows.
        job: the larger call or bulk job that the chunk is a part of; None if it is all of a call.
        seq: number of the chunk inside its job.
    """

    id: str
    task: Task
    model: str
    fingerprint: str
    lengths: TokenIds
    token_ids: TokenIds
    segment_ids: SegmentIds | None = None
    options: Options = field(default_factory=Options)
    job: str | None = None
    seq: int | None = None

    @property
    def num_sequences(self) -> int:
        """Sequences in the chunk."""
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        """Token ids in the chunk."""
        return len(self.token_ids)

    def sequences(self) -> list[TokenIds]:
        """Views of the token ids, one a sequence."""
        return np.split(self.token_ids, np.cumsum(self.lengths[:-1], dtype=np.int64))


@dataclass(frozen=True, slots=True)
class BadItem:
    """One sequence of a chunk that has no result; the others do."""

    index: int
    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a chunk cost.

    Attributes:
        tokens: tokens that ran.
        queue_ms: from the moment the broker stored the chunk to the start of its step.
        run_ms: from the moment its step was handed to the device until the rows were there.
        batch_tokens: tokens of that step, other callers' included.
    """

    tokens: int
    queue_ms: float
    run_ms: float
    batch_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """The result of one chunk.

    Attributes:
        id: the chunk's.
        rows: [n, dim] in the asked dtype (`b1`: [n, ceil(dim / 8)] bytes), in the chunk's order; zero for bad items.
        dim: dimensions of a row; 1 for scores.
        dtype: of `rows`.
        bad: items without a result, by index.
        usage: what it cost.
        worker: who ran it.
    """

    id: str
    rows: Rows
    dim: int
    dtype: Dtype
    bad: tuple[BadItem, ...]
    usage: Usage
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply:
    """The answer to a chunk of which nothing ran.

    Attributes:
        id: the chunk's, or empty when the chunk could not be read.
        code: why.
        text: what to do about it.
        retry_ms: when a retry makes sense, for retryable codes.
        worker: who says so.
    """

    id: str
    code: ErrorCode
    text: str
    retry_ms: int | None = None
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTemplate:
    """How a query and a document become one text, for models that were taught to read a pair so.

    Each part is tokenised by itself, without added special tokens.

    Attributes:
        prefix: what stands first.
        body: the middle, with {query} and perhaps {instruction}, each once, and {document} at its end, which is cut.
        suffix: what stands last.
    """

    prefix: str
    body: str
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """All that a producer must know of a model; workers publish it.

    Attributes:
        name: served name; part of subjects.
        source: where the worker loaded it from, for people.
        tasks: what it can compute.
        dim: dimensions of a full row; 1 for scores.
        dtypes: element types that it can reply in.
        default_dtype: the one to ask for when the caller names none.
        compute_dtype: what the device computes in, for people.
        max_length: tokens of the longest sequence, special tokens included.
        max_length_source: the file and field that said so.
        pooling: how token rows become one row.
        include_prompt: whether the tokens of a prompt take part in it; if not, `Options.skip` says how many they are.
        normalize: whether the checkpoint itself ends in a normalise step; the default of `Options.normalize`.
        prompts: text to put before the input, by prompt name; of a pair, before the query or where the template says.
        default_prompt: prompt name used when the caller names none.
        pair_template: how pairs are joined; None leaves that to tokenizer.json.
        vocab_size: token ids lie below it.
        num_segments: segment ids lie below it; 1 for models that tell no segments apart.
        fingerprint: see fingerprint.py.
        tokenizer: SHA-256 of tokenizer.json, which is its name in the object store.
        max_chunk_tokens: tokens that a chunk may hold.
        max_chunk_items: sequences that a chunk may hold, so that its reply fits the server's max_payload.
        shards: online work is spread over so many servers, 0 … shards - 1, of which one can stand in for another.
        queues: each of them has so many queues, 0 … queues - 1, which tenants are spread over.
    """

    name: str
    source: str
    tasks: tuple[Task, ...]
    dim: int
    dtypes: tuple[Dtype, ...]
    default_dtype: Dtype
    compute_dtype: str
    max_length: int
    max_length_source: str
    pooling: str
    include_prompt: bool
    normalize: bool
    prompts: Mapping[str, str]
    default_prompt: str | None
    pair_template: PairTemplate | None
    vocab_size: int
    num_segments: int
    fingerprint: str
    tokenizer: str
    max_chunk_tokens: int
    max_chunk_items: int
    shards: int = 1
    queues: int = 1

    @property
    def online_queues(self) -> tuple[tuple[int, int], ...]:
        """Shard and queue of each online subject."""
        return tuple(product(range(self.shards), range(self.queues)))


@dataclass(frozen=True, slots=True)
class Cancel:
    """Chunks that nobody waits for any more.

    Attributes:
        ids: of the chunks, 1 to MAX_CANCEL_IDS.
    """

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """A worker is there, or is about to leave.

    Attributes:
        worker: who.
        every_ms: it says so again within this time.
        rate: tokens/s that it can do; None while it does not know.
        leaving: it takes no more work.
    """

    worker: str
    every_ms: int
    rate: int | None = None
    leaving: bool = False

    @property
    def valid_s(self) -> float:
        """Seconds for which it holds: a worker that is silent for three of its intervals is gone."""
        return _SILENCES * self.every_ms / 1000


def rate_together(rates: Collection[int | None]) -> int | None:
    """Tokens/s of workers that say so of themselves; None where nobody knows.

    One that does not know its rate counts as the mean of the others.
    """
    known = [rate for rate in rates if rate is not None]
    return round(sum(known) / len(known) * len(rates)) if known else None
