"""What a run of the benchmark found, as data, and its JSON.

It knows what is kept. It does not know how anything was measured, nor how a report looks.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from machine import Machine
from timing import Spread

SCHEMA = 2

Status = Literal["ran", "absent", "failed", "unasked"]
"""absent: not installed; failed: it was there and did not work; unasked: whoever ran this left it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Someone who was, or should have been, measured.

    Attributes:
        name: Short and unique, such as "openvino-bf16".
        label: For people, such as "OpenVINO bf16".
        is_ours: Whether it is a way of using Headrace.
        is_server: Whether calls to it cross a network; a library is called in its own process.
        dtype: What it computes in.
        is_second_choice: Whether the same one was there in a dtype that is faster on this machine, too. Of ours, that
            one alone is compared with the peers.
        versions: Of its packages.
        settings: Its settings, in words.
        status: Whether it took part.
        reason: Why not; empty if it did.
        load_s: From its start until it was ready; 0 if it never was.
        memory_mib: Resident memory of all its processes after the last suite; 0 if it took no part.
    """

    name: str
    label: str
    is_ours: bool
    is_server: bool
    dtype: str
    is_second_choice: bool = False
    versions: Mapping[str, str]
    settings: Mapping[str, str]
    status: Status
    reason: str = ""
    load_s: float = 0
    memory_mib: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One contender in one case.

    Attributes:
        contender: Its name.
        divergence: 1 − cosine to the reference: of the farthest row for vectors, of the row of logits for scores. None
            where no rows came.
        is_right: Whether `divergence` is within the bound; what is not right counts for no ratio.
        reason: What went wrong, if it broke off: then `took` is None and the rates are 0.
        took: Durations of a call.
        rounds_ms: The median call of each round, in the order of the rounds: those of one round were measured one after
            the other, so that ratios of them are fair on a machine that changes its speed.
        rounds_per_s: What `per_s` was in each round.
        per_s: Texts (embedding) or documents (scoring) a second; for concurrent clients, calls a second.
        tokens_per_s: At that rate.
        cpu_s_per_mtoken: Processor seconds of all its processes for a million tokens; None where that is not known.
        limit_share: What it did in a second as a part of what the limit allows: 1 would be a machine that does nothing
            but multiply at the measured rate.
    """

    contender: str
    divergence: float | None
    is_right: bool
    reason: str = ""
    took: Spread | None = None
    rounds_ms: tuple[float, ...] = ()
    rounds_per_s: tuple[float, ...] = ()
    per_s: float = 0
    tokens_per_s: float = 0
    cpu_s_per_mtoken: float | None = None
    limit_share: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that everyone had to do.

    Attributes:
        name: Such as "512 tokens", "25 documents", "8 clients".
        texts: In a call.
        tokens: In a call, special tokens included; the mean where calls differ.
        flop: Operations of a call: linear layers and attention.
        limit_ms: A call at the measured matrix rate, in the fastest dtype; for concurrent clients, of one call as if it
            had the machine for itself.
        entries: One a contender that took part, in the order of the contenders.
    """

    name: str
    texts: float
    tokens: float
    flop: float
    limit_ms: float
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases that belong together.

    Attributes:
        name: "low-latency-embedding", "low-latency-scoring", "high-throughput-embedding" or "high-concurrency".
        title: For people.
        what: What a call is and how it was measured, in a sentence or two.
        better: What is compared: "ms", where less is better, or "per_s", where more is.
        cases: In order of size.
    """

    name: str
    title: str
    what: str
    better: Literal["ms", "per_s"]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What plain matrix products reach here in one dtype, at their fastest.

    Attributes:
        dtype: The format.
        product: Rows, inputs and outputs of the product that was timed.
        gflops: 10⁹ operations a second.
        tokens_per_s: Tokens whose linear layers that would do.
    """

    dtype: str
    product: tuple[int, int, int]
    gflops: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of the engine alone, of one shape: ids in, rows out.

    Attributes:
        shape: Its name.
        sequences: In a batch.
        tokens: In a batch.
        step: Durations, from the packed batch to its rows.
        tokens_per_s: At the median.
        flop: Operations of a batch.
        limit_share: Time at the measured matrix rate as a part of the median.
    """

    shape: str
    sequences: int
    tokens: int
    step: Spread
    tokens_per_s: float
    flop: float
    limit_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where a call of the whole path spends its time; medians in ms.

    Attributes:
        case: "query", "512 tokens", "8 clients"…
        clients: Calls at a time.
        total: From the text to its vector.
        tokenise: Measured on its own.
        publish: Until the broker has stored the chunk and said so, measured on its own.
        queue: From the broker to the start of the step.
        run: The step, with whatever else was in it.
        reply: What is left: the way back, and the event loops.
    """

    case: str
    clients: int
    total: float
    tokenise: float
    publish: float
    queue: float
    run: float
    reply: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePath:
    """What the message path costs without a model: an engine that answers at once.

    Attributes:
        case: "one query", "one text of 512 tokens", "chunks of 512 tokens"…
        tokens: Of a chunk.
        clients: Calls at a time.
        call: Durations of a call from token ids to rows, for latency cases; None for bulk.
        chunks_per_s: Throughput.
        tokens_per_s: Throughput.
        cpu_us_per_chunk: Processor time of a chunk by process: "client", "broker", "worker".
        cpu_share: Of what the engine alone needs for the same tokens; None where that was not measured.
    """

    case: str
    tokens: int
    clients: int
    call: Spread | None
    chunks_per_s: float
    tokens_per_s: float
    cpu_us_per_chunk: Mapping[str, float]
    cpu_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Throughput with so many workers.

    Attributes:
        engine: "null" or "real".
        workers: How many, each with its share of the cores.
        chunks_per_s: Throughput.
        tokens_per_s: Throughput.
    """

    engine: Literal["null", "real"]
    workers: int
    chunks_per_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What so many waiting chunks cost.

    Attributes:
        chunks: That wait.
        tokens: Of a chunk.
        publish_per_s: Chunks a second while it was filled.
        broker_memory_mib: Resident, with the backlog there.
        broker_disk_mib: Of the store.
        drain_per_s: Chunks a second that a worker with an engine that answers at once takes out, measured over
            `drained` chunks at this depth.
        drained: How many that were.
        broker_cpu_us: Processor time of the broker for a chunk taken out.
        worker_cpu_us: The same for the worker.
    """

    chunks: int
    tokens: int
    publish_per_s: float
    broker_memory_mib: float
    broker_disk_mib: float
    drain_per_s: float
    drained: int
    broker_cpu_us: float
    worker_cpu_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """The cost of everything but the model."""

    path: tuple[MessagePath, ...]
    growth: tuple[Growth, ...]
    backlog: tuple[Backlog, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One batch of the calibration: its composition, and its median time."""

    sequences: int
    length: int
    ms: float

    @property
    def tokens(self) -> int:
        """Of the batch."""
        return self.sequences * self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What `headrace calibrate` found for the model that was measured.

    Attributes:
        points: What it measured.
        a_ms: The fixed part of a step.
        b_us: For a token.
        c_ns: For a token times the length of its sequence.
        step_tokens: The step budget it picked.
        budget_tokens: Tokens in hand that it picked.
        saturation_tokens: From here on, more tokens gain little.
        quadratic_length: Sequences of this length spend as much on the quadratic part as on the linear one; None where
            that is longer than any.
        target_ms: The latency target it was given.
    """

    points: tuple[Point, ...]
    a_ms: float
    b_us: float
    c_ns: float
    step_tokens: int
    budget_tokens: int
    saturation_tokens: int
    quadratic_length: int | None
    target_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run.

    Attributes:
        machine: Where and of what.
        mode: "full", "quick", or "partial" where flags left something out, or it was broken off.
        took_s: All of it.
        models: "embedder" and "scorer": what they are, in words.
        bound: The divergence that is still right.
        contenders: Ours first.
        ceilings: By dtype.
        suites: The four.
        shapes: The engine alone.
        parts: The breakdown of the whole path.
        economics: Of the message path; None if it was left out.
        calibrated: What the worker's budgets came from; None if it was left out.
        unmeasured: What was to be measured and failed, and why.
    """

    machine: Machine
    mode: Literal["full", "quick", "partial"]
    took_s: float
    models: Mapping[str, str]
    bound: float
    contenders: tuple[Contender, ...]
    ceilings: tuple[Ceiling, ...]
    suites: tuple[Suite, ...]
    shapes: tuple[Steps, ...] = ()
    parts: tuple[Parts, ...] = ()
    economics: Economics | None = None
    calibrated: Calibrated | None = None
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    def save(self, file: Path) -> None:
        """Write all of it as JSON, for `load` and for people."""
        file.parent.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {"schema": SCHEMA} | asdict(self)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")

    @classmethod
    def load(cls, file: Path) -> "Result":
        """Read what `save` wrote.

        Raises:
            ValueError: It is of another schema.
        """
        content = msgspec.json.decode(file.read_bytes())
        if content.pop("schema", None) != SCHEMA:
            raise ValueError(f"{file} is no result of schema {SCHEMA}: run `make bench` again")
        return msgspec.convert(content, cls)
