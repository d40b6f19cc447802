"""Races: batches prepared and queued while others run, against the same batches run one at a time.

It knows how to keep several in flight and how to be rude to what was handed over. It does not know who might overwrite
what.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from headrace_engine.batch import RaggedBatch
from headrace_engine.config import EngineConfig
from headrace_engine.graphs import GraphConfig
from headrace_engine.lazy import LazyTensor

from gpu.batches import Lengths, draw, shapes, tensors, text
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.deadline import Deadline
from gpu.finding import Check, Where
from gpu.likeness import SAME, Rows, Tally
from gpu.model import Built
from gpu.ways import Ways

# Some batches are larger, so that eager runs and replays come in turn.
_CONFIG = EngineConfig(graphs=GraphConfig(defer_s=0), max_graph_tokens=1024)
_IN_FLIGHT = 2
_RUNS_OF_EACH = 5
_TOKENS_OF_EACH = 4  # other tokens in the same shape, and so in the same graph
_MAX_SEQUENCES = 12
_MAX_LENGTH = 400


@dataclass(frozen=True, slots=True)
class _Case:
    lengths: Lengths
    seed: int
    eager: Rows
    replayed: Rows | None


@torch.inference_mode()
def check_races(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Check]:
    """Run random batches alone, then all of them with others in flight."""
    backend = bench.backend
    where = Where("races", backend.name, blueprint.name)
    built = Built.by(blueprint, backend.dtype, backend.device)
    cases = list(_alone(Ways(backend, built, _CONFIG), built, bench.sizes.races, deadline))
    race = _Race(built, Ways(backend, built, _CONFIG), cases)  # its graphs are captured with batches in flight
    for index in np.random.default_rng(5).permutation(np.repeat(np.arange(len(cases)), _RUNS_OF_EACH)).tolist():
        if deadline.is_over:
            break
        race.queue(index)
    race.read_all()
    yield race.tally.check(where, f"{race.num_runs} of {bench.sizes.races} runs, {race.num_replays} replays")


def _alone(ways: Ways, built: Built, num_runs: int, deadline: Deadline) -> Iterator[_Case]:
    num_shapes = max(1, num_runs // _RUNS_OF_EACH // _TOKENS_OF_EACH)
    longest = min(built.limits.max_length, _MAX_LENGTH)
    for lengths in shapes(num_shapes, longest, _MAX_SEQUENCES, seed=0):
        for seed in range(_TOKENS_OF_EACH):
            if deadline.is_over:
                return
            batch = draw(lengths, built.limits, seed)
            eager = ways.eager(batch)
            # The first run of a shape is eager and the second captures it; later ones replay at once.
            replays = [ways.replayed(batch) for _ in range(2)]
            yield _Case(lengths, seed, eager, replays[-1])


class _Race:
    def __init__(self, built: Built, ways: Ways, cases: list[_Case]) -> None:
        self.tally = Tally("in flight = alone", SAME)
        self.num_runs = 0
        self.num_replays = 0
        self._limits = built.limits
        self._runner = ways.runner if ways.graphing is None else ways.graphing.runner
        self._graphs = None if ways.graphing is None else ways.graphing.graphs
        self._cases = cases
        self._unread: deque[tuple[_Case, Rows, LazyTensor]] = deque()

    def queue(self, index: int) -> None:
        """Queue one, and read the oldest where that makes too many."""
        case = self._cases[index]
        batch = draw(case.lengths, self._limits, case.seed)
        before = self._replays()
        rows = self._runner.run(batch)
        _scribble(batch)
        is_replay = self._replays() > before
        self.num_runs += 1
        self.num_replays += is_replay
        expected = case.replayed if is_replay and case.replayed is not None else case.eager
        self._unread.append((case, expected, rows))
        if len(self._unread) > _IN_FLIGHT:
            self._read()

    def read_all(self) -> None:
        """Read what is still in flight."""
        while self._unread:
            self._read()

    def _read(self) -> None:
        case, expected, rows = self._unread.popleft()
        self.tally.compare(text(case.lengths), rows.numpy(), expected)

    def _replays(self) -> int:
        return 0 if self._graphs is None else self._graphs.counters.replays


def _scribble(batch: RaggedBatch) -> None:
    """Write over the tensors of a batch, which `run` must have read when it returns."""
    for tensor in tensors(batch).values():
        tensor.zero_()
