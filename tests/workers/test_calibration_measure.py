"""Measuring, on an engine and a clock that keep to a law to the letter."""

from typing import Any

import numpy as np
import pytest
import torch
from headrace_engine import Checkpoint, Engine, LazyTensor, RaggedBatch
from headrace_workers.calibration.cost import Cost, fit
from headrace_workers.calibration.measure import Limits, measure
from headrace_workers.calibration.plan import ladders

from .calibrations import LAW


class Clockwork:
    """An engine whose every step takes what the law says, on its own clock."""

    dtype = torch.float32
    device = torch.device("cpu")
    graphs = None

    def __init__(self, checkpoint: Checkpoint, law: Cost, *, max_tokens: int | None = None, in_flight: int = 1) -> None:
        self.checkpoint = checkpoint
        self.max_in_flight = in_flight
        self.now_s = 0.0
        self.num_rests = 0
        self.shapes: list[tuple[int, int]] = []
        self.slow_until_s = 0.0
        self._law = law
        self._max_tokens = max_tokens
        self._resting: set[tuple[int, int]] = set()
        self._hits: dict[tuple[int, int], int] = {}

    def clock(self) -> float:
        return self.now_s

    @property
    def wants_rest(self) -> bool:
        return bool(self._resting)

    def rest(self) -> None:
        self._resting.pop()
        self.num_rests += 1

    def step(self, batch: RaggedBatch) -> LazyTensor:
        if self._max_tokens is not None and batch.num_tokens > self._max_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        assert int(batch.token_ids.max()) < self.checkpoint.vocab_size
        squares = int(np.square(np.diff(batch.host_cu_seqlens).astype(np.int64)).sum())
        shape = batch.num_tokens, squares
        self.shapes.append(shape)
        self._hits[shape] = self._hits.get(shape, 0) + 1
        if self.max_in_flight > 1 and self._hits[shape] == 2:
            self._resting.add(shape)
        # A neighbour that computes makes all of it slower.
        pace = 2 if self.now_s < self.slow_until_s else 1
        self.now_s += pace * self._law.step_ms(batch.num_tokens, squares) / 1000
        return LazyTensor(torch.zeros(batch.num_sequences, 1))


def run(engine: Clockwork, **limits: Any) -> tuple[Any, ...]:
    wanted = Limits(**{"budget_s": 20.0, "enough_ms": 300.0, **limits})
    return measure(engine, ladders(engine.checkpoint.max_length), wanted, clock=engine.clock)


def test_the_law_of_the_engine_is_found_from_what_is_measured(minilm: Engine) -> None:
    found = fit(run(Clockwork(minilm.checkpoint, LAW)))
    assert (found.a_ms, found.b_ms, found.c_ms) == pytest.approx((LAW.a_ms, LAW.b_ms, LAW.c_ms), rel=1e-6)


def test_both_sides_of_the_target_are_measured_and_the_longest_sequence(minilm: Engine) -> None:
    points = run(Clockwork(minilm.checkpoint, LAW))
    assert max(point.ms for point in points) >= 300
    assert max(point.ms for point in points) < 4 * 300
    assert max(point.longest for point in points if point.kind == "one sequence") == minilm.checkpoint.max_length


@pytest.mark.parametrize("budget_s", [1.0, 5.0, 20.0])
def test_the_time_that_is_given_is_kept_to_within_one_batch(minilm: Engine, budget_s: float) -> None:
    engine = Clockwork(minilm.checkpoint, LAW)
    points = run(engine, budget_s=budget_s)
    longest_s = max(point.ms for point in points) / 1000
    wake_up_s = 0.5
    assert engine.now_s <= budget_s + 2 * longest_s + wake_up_s


@pytest.mark.parametrize("budget_s", [2.0, 20.0, 60.0])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_slow_device_with_long_sequences_keeps_to_its_time(minilm: Engine, budget_s: float, in_flight: int) -> None:
    engine = Clockwork(minilm.checkpoint, Cost(a_ms=4, b_ms=4, c_ms=1e-4), in_flight=in_flight)
    limits = Limits(budget_s=budget_s, enough_ms=300.0)
    found = measure(engine, ladders(8192), limits, clock=engine.clock)
    wake_up_s = 0.1
    assert engine.now_s <= 1.3 * budget_s + wake_up_s
    assert found
    assert max(point.ms for point in found) <= 0.1 * budget_s * 1000


def test_a_device_too_slow_for_a_second_batch_has_the_smallest_measured(minilm: Engine) -> None:
    points = run(Clockwork(minilm.checkpoint, Cost(a_ms=5000, b_ms=10, c_ms=0)), budget_s=2.0)
    assert [(point.num_tokens, point.num_times) for point in points] == [(8, 1)]


def test_a_fast_device_measures_every_ladder(minilm: Engine) -> None:
    engine = Clockwork(minilm.checkpoint, Cost(a_ms=1.2, b_ms=0.0015, c_ms=3e-7), in_flight=2)
    points = measure(engine, ladders(8192), Limits(budget_s=20.0, enough_ms=300.0), clock=engine.clock)
    assert {point.kind for point in points} == {ladder.kind for ladder in ladders(8192)}
    assert min(point.num_times for point in points) > 1


def test_nothing_is_found_where_not_even_the_smallest_batch_finds_memory(minilm: Engine) -> None:
    assert run(Clockwork(minilm.checkpoint, LAW, max_tokens=7)) == ()


def test_memory_that_others_take_later_ends_nothing(minilm: Engine) -> None:
    class Crowded(Clockwork):
        def step(self, batch: RaggedBatch) -> LazyTensor:
            if self.now_s > 10 and batch.num_tokens > 100:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().step(batch)

    points = run(Crowded(minilm.checkpoint, LAW), budget_s=15.0)
    assert max(point.num_tokens for point in points) > 100


def test_a_neighbour_that_computes_for_a_while_bends_nothing(minilm: Engine) -> None:
    engine = Clockwork(minilm.checkpoint, LAW)
    engine.slow_until_s = 5.0
    found = fit(run(engine))
    assert found.full_step_ms(512, 256) == pytest.approx(LAW.full_step_ms(512, 256), rel=0.02)


def test_batches_that_find_no_memory_end_their_ladder_and_nothing_else(minilm: Engine) -> None:
    points = run(Clockwork(minilm.checkpoint, LAW, max_tokens=700))
    assert 350 < max(point.num_tokens for point in points) <= 700


def test_another_failure_is_not_hidden(minilm: Engine) -> None:
    class Broken(Clockwork):
        def step(self, batch: RaggedBatch) -> LazyTensor:
            del batch
            raise RuntimeError("the device fell off the bus")

    with pytest.raises(RuntimeError, match="fell off the bus"):
        run(Broken(minilm.checkpoint, LAW))


def test_graphs_are_captured_before_a_time_is_taken(minilm: Engine) -> None:
    engine = Clockwork(minilm.checkpoint, LAW, in_flight=2)
    points = run(engine)
    assert engine.num_rests >= len(points)
    assert not engine.wants_rest


def test_progress_rises_and_never_exceeds_the_whole(minilm: Engine) -> None:
    engine = Clockwork(minilm.checkpoint, LAW)
    told: list[float] = []
    limits = Limits(budget_s=3.0, enough_ms=300.0)
    measure(engine, ladders(256), limits, lambda share, _: told.append(share), engine.clock)
    assert told == sorted(told)
    assert told[-1] == 1.0
