"""Runs batches on an engine and takes their times.

Knows clocks, repeats and when to stop. Does not know what the times are for. All in the thread that calls it, which
must be the one that loaded the engine: a second one would compute with a second set of OpenMP threads (decision 0011).
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from headrace_engine import RaggedBatch, pack

from headrace_workers.calibration.cost import Point
from headrace_workers.calibration.plan import Ladder, Shape
from headrace_workers.lane import LoadedEngine, is_out_of_memory

# A rung has twice the tokens of the one before: at worst four times its time.
_GROWTH = 4
# The first of these is eager, at the second a graph is due, and the idle moment after it is when it is captured.
_WARM_UPS = 2
_MAX_ROUNDS = 15
# How often a batch is run at each turn: short ones several times, since they are disturbed as easily and cost little.
_TURN_MS, _MAX_A_TURN = 30.0, 5
# Of the time there is: what climbing the ladders may take of it, and one batch at most.
_CLIMB, _ONE = 0.5, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long measuring may take.

    Attributes:
        budget_s: all of it but for the smallest batch, which wakes the device up; it is kept to within one batch.
        enough_ms: a ladder whose batch takes longer ends there; only the one whose sequence grows goes on, since the
            longest sequence is what the quadratic part is known by.
    """

    budget_s: float
    enough_ms: float


@dataclass(slots=True)
class _Sample:
    """The times of one batch."""

    kind: str
    shape: Shape
    batch: RaggedBatch
    times_ms: list[float] = field(default_factory=list)

    def point(self) -> Point:
        middle = statistics.median(self.times_ms)
        return Point(
            kind=self.kind,
            num_sequences=len(self.shape.lengths),
            num_tokens=self.shape.num_tokens,
            num_squares=self.shape.num_squares,
            longest=max(self.shape.lengths),
            ms=middle,
            spread=statistics.median(abs(ms - middle) for ms in self.times_ms) / middle,
            num_times=len(self.times_ms),
        )


def measure(
    engine: LoadedEngine,
    ladders: Sequence[Ladder],
    limits: Limits,
    progress: Callable[[float, str], None] = lambda _share, _text: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Point, ...]:
    """Climb all ladders in step, then repeat what was reached in random order until the time is up.

    In random order, so that a device that grows hot or a neighbour that comes and goes bends no part of the curve more
    than another; the median of a batch's times counts. No batch is begun that would take more than a tenth of the time,
    judged by the one before it, so a slow device leaves ladders of long sequences out.

    Args:
        engine: to be measured, loaded in this thread.
        ladders: batches, smallest first.
        limits: of time.
        progress: told the share of the time that has gone, and what is done.
        clock: seconds.

    Returns:
        A point for each batch; none where the device has no memory for the smallest.
    """
    stopwatch = _Stopwatch(engine, clock)
    stopwatch.wake_up(ladders)
    start_s = clock()

    def tell(text: str) -> float:
        gone = (clock() - start_s) / limits.budget_s
        progress(min(1.0, gone), text)
        return gone

    samples = stopwatch.climb(ladders, limits, tell)
    stopwatch.repeat(samples, lambda: tell("repeating") < 1)
    return tuple(sample.point() for sample in samples)


class _Stopwatch:
    """Takes the time of single steps."""

    def __init__(self, engine: LoadedEngine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock
        self._ids = np.random.default_rng(0)
        self._order = random.Random(0)  # noqa: S311 - an order, not a secret

    def wake_up(self, ladders: Sequence[Ladder]) -> None:
        """Let libraries load and the device wake before a clock runs, by the smallest batch."""
        smallest = min((ladder.rungs[0] for ladder in ladders), key=lambda shape: shape.num_tokens)
        with _leaving_out_what_finds_no_memory():
            self._warm_up(self._batch(smallest))

    def climb(self, ladders: Sequence[Ladder], limits: Limits, tell: Callable[[str], float]) -> list[_Sample]:
        """The first rungs of all ladders, then the second ones, until they take too long."""
        samples = list[_Sample]()
        climbing = {ladder.kind: ladder for ladder in ladders}
        for rung in range(max(len(ladder.rungs) for ladder in ladders)):
            for kind, ladder in tuple(climbing.items()):
                gone = tell(f"{kind}, batch {rung + 1}")
                # The first batch of all is run in any case: there is nothing to judge it by.
                is_worth_it = not samples or (gone <= _CLIMB and _is_affordable(ladder, rung, samples[-1], limits))
                sample = self._first(kind, ladder.rungs[rung]) if is_worth_it else None
                if sample is not None:
                    samples.append(sample)
                if sample is None or not _goes_on(ladder, rung, sample, limits):
                    del climbing[kind]
        return samples

    def repeat(self, samples: Sequence[_Sample], there_is_time: Callable[[], bool]) -> None:
        """Take all times again and again, each round in another order."""
        for _ in range(_MAX_ROUNDS):
            for sample in self._order.sample(samples, len(samples)):
                if not there_is_time():
                    return
                self._take_turn(sample)

    def _take_turn(self, sample: _Sample) -> None:
        repeats = round(_TURN_MS / sample.times_ms[0])
        with _leaving_out_what_finds_no_memory():
            for _ in range(max(1, min(_MAX_A_TURN, repeats))):
                sample.times_ms.append(self._time_ms(sample.batch))

    def _first(self, kind: str, shape: Shape) -> _Sample | None:
        """Its first time, after warming up; None where the device has no memory for it."""
        sample = _Sample(kind, shape, self._batch(shape))
        with _leaving_out_what_finds_no_memory():
            self._warm_up(sample.batch)
            sample.times_ms.append(self._time_ms(sample.batch))
        return sample if sample.times_ms else None

    def _warm_up(self, batch: RaggedBatch) -> None:
        for _ in range(1 if self._engine.max_in_flight == 1 else _WARM_UPS):
            self._engine.step(batch).wait()
        while self._engine.wants_rest:
            self._engine.rest()

    def _time_ms(self, batch: RaggedBatch) -> float:
        start_s = self._clock()
        self._engine.step(batch).numpy()
        return (self._clock() - start_s) * 1000

    def _batch(self, shape: Shape) -> RaggedBatch:
        vocab_size = self._engine.checkpoint.vocab_size
        return pack([self._ids.integers(0, vocab_size, length, np.uint32) for length in shape.lengths])


@contextmanager
def _leaving_out_what_finds_no_memory() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise


def _is_affordable(ladder: Ladder, rung: int, last: _Sample, limits: Limits) -> bool:
    """Whether there is time for a first rung, by the pace of the batch before it; of later ones `_goes_on` judges."""
    pace_ms = last.times_ms[-1] / last.shape.num_tokens
    return rung > 0 or pace_ms * ladder.rungs[0].num_tokens <= _ONE * limits.budget_s * 1000


def _goes_on(ladder: Ladder, rung: int, last: _Sample, limits: Limits) -> bool:
    """Whether there is a next rung that is worth its time, and time for it."""
    last_ms = last.times_ms[-1]
    is_affordable = rung + 1 < len(ladder.rungs) and _GROWTH * last_ms <= _ONE * limits.budget_s * 1000
    return is_affordable and (ladder.grows_longer or last_ms < limits.enough_ms)
