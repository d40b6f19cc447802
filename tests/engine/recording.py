"""Stand-ins for a device: events that fire when told, a clock that stands still, and backends without a GPU."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from headrace_engine import RaggedBatch, pack
from headrace_engine.buckets import GraphKey
from headrace_engine.pooling import Pooling, pool
from headrace_engine.static_batch import StaticBatch

from .vectors import random_ids

VOCAB_SIZE = 50
NAN_TOKEN = VOCAB_SIZE  # its row is not a number
MAX_LENGTH = 512
CPU = torch.device("cpu")


def batch_of(*lengths: int, seed: int = 0) -> RaggedBatch:
    """Random tokens, sequences of these lengths."""
    return pack([random_ids(seed + index, length, VOCAB_SIZE) for index, length in enumerate(lengths)])


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class ManualEvent:
    """A copy event that fires when told, or when somebody waits for it."""

    def __init__(self) -> None:
        self.fired = False
        self.waits = 0

    def query(self) -> bool:
        return self.fired

    def synchronize(self) -> None:
        self.waits += 1
        self.fired = True


@dataclass
class Recording:
    """A backend that runs nothing: rows of zeros, eager ones and replayed ones, and a record of what was asked.

    Attributes:
        num_bytes: Of the graphs it captures from now on.
        failing: Keys whose capture raises.
        has_memory: Whether captures find any.
        log: What was asked, in order.
    """

    num_bytes: int = 10
    failing: set[GraphKey] = field(default_factory=set)
    has_memory: bool = True
    log: list[tuple[str, GraphKey | None]] = field(default_factory=list)

    def eager(self, batch: RaggedBatch) -> torch.Tensor:
        self.log.append(("eager", None))
        return torch.zeros(batch.num_sequences, 1)

    def capture(self, key: GraphKey) -> "RecordedGraph":
        self.log.append(("capture", key))
        if key in self.failing:
            message = "operation not permitted when stream is capturing"
            raise RuntimeError(message)
        if not self.has_memory:
            message = "CUDA out of memory"
            raise torch.OutOfMemoryError(message)
        return RecordedGraph(key, self.num_bytes, self.log)

    def keys(self, what: str) -> list[GraphKey | None]:
        return [key for name, key in self.log if name == what]


@dataclass
class RecordedGraph:
    key: GraphKey
    num_bytes: int
    log: list[tuple[str, GraphKey | None]]

    def replay(self, padded: RaggedBatch) -> torch.Tensor:
        assert (padded.num_tokens, padded.num_sequences) == (self.key.num_tokens, self.key.num_sequences)
        self.log.append(("replay", self.key))
        return torch.zeros(padded.num_sequences, 1)

    def release(self) -> None:
        self.log.append(("release", self.key))


class TinyModel:
    """Embeddings, one layer of attention, pooling: little, but each row depends on all tokens of its sequence, on
    their positions and segments, and it reads every buffer of a batch.
    """

    def __init__(self, pooling: Pooling, width: int = 8) -> None:
        draw = torch.Generator().manual_seed(7)
        self.pooling = pooling
        self.width = width
        self.tokens = torch.randn(VOCAB_SIZE + 1, width, generator=draw)
        self.tokens[NAN_TOKEN] = torch.nan
        self.positions = torch.randn(MAX_LENGTH, width, generator=draw)
        self.segments = torch.randn(2, width, generator=draw)
        self.projections = torch.randn(3, width, width, generator=draw)

    def __call__(self, batch: RaggedBatch) -> torch.Tensor:
        segments = self.segments[0] if batch.segment_ids is None else self.segments[batch.segment_ids]
        rows = self.tokens[batch.token_ids] + self.positions[batch.positions] + segments
        query, key, value = rows @ self.projections
        attended = torch.full_like(rows, torch.nan)  # a row that no sequence owns stays so
        for start, stop in pairwise(batch.host_cu_seqlens):
            scores = query[start:stop] @ key[start:stop].T / self.width**0.5
            attended[start:stop] = torch.softmax(scores, dim=-1) @ value[start:stop]
        return pool(rows + attended, batch.cu_seqlens, self.pooling, batch.skips)


class CpuGraphs:
    """A backend that runs a model on the CPU; a replay fills static buffers and runs the model on them.

    Attributes:
        output: What all graphs write to, as those of a CUDA device do; None where each replay gives rows of its own.
        captured: The keys, in order.
    """

    def __init__(self, model: TinyModel, *, shares_output: bool = True) -> None:
        self.model = model
        self.output = torch.full((1024, model.width), torch.nan) if shares_output else None
        self.captured: list[GraphKey] = []

    def eager(self, batch: RaggedBatch) -> torch.Tensor:
        return self.model(batch)

    def capture(self, key: GraphKey) -> "CpuGraph":
        self.captured.append(key)
        graph = CpuGraph(self, StaticBatch.allocate(key, CPU, has_segments=True, has_skips=True))
        graph.run()
        return graph


@dataclass
class CpuGraph:
    backend: CpuGraphs
    static: StaticBatch
    num_bytes: int = 1000

    def replay(self, padded: RaggedBatch) -> torch.Tensor:
        self.static.fill(padded, torch.Tensor.copy_)
        return self.run()

    def run(self) -> torch.Tensor:
        rows = self.backend.model(self.static.batch)
        return rows if self.backend.output is None else self.backend.output[: len(rows)].copy_(rows)

    def release(self) -> None:
        """Nothing outlives it."""


def packed_rows(model: TinyModel, batch: RaggedBatch) -> torch.Tensor:
    """The row of each sequence alone, in the order of the batch: what every way of running it must give."""
    bounds = batch.host_cu_seqlens.tolist()
    spans = [slice(start, stop) for start, stop in pairwise(bounds)]
    ids = [batch.token_ids[span].numpy().astype(np.uint32) for span in spans]
    segments = (
        None if batch.segment_ids is None else [batch.segment_ids[span].numpy().astype(np.uint8) for span in spans]
    )
    skips = [0] * len(ids) if batch.skips is None else batch.skips.tolist()
    alone = [pack([ids[i]], None if segments is None else [segments[i]], [skips[i]]) for i in range(len(ids))]
    return torch.cat([model(batch) for batch in alone])
