"""The lane with an engine that queues, as one for CUDA does: steps return before their rows are there."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch, pack
from headrace_workers import lane as lane_module
from headrace_workers.lane import Lane, is_out_of_memory

from ..waiting import until


class Late:
    """An event that the test lets happen."""

    def __init__(self) -> None:
        self.happened = threading.Event()

    def query(self) -> bool:
        return self.happened.is_set()

    def synchronize(self) -> None:
        assert self.happened.wait(20)


class QueueingEngine:
    """Queues every step and finishes it when the test says so."""

    checkpoint = cast("Checkpoint", None)
    dtype = torch.float32
    device = torch.device("cpu")
    graphs = None
    max_in_flight = 2

    def __init__(self) -> None:
        self.queued: list[Late] = []
        self.deferred = 0
        self.rests = 0
        self.fails = False
        self.rest_fails = False
        self.rest_may_end = threading.Event()
        self.rest_may_end.set()

    def step(self, batch: RaggedBatch) -> LazyTensor:
        if self.fails:
            raise RuntimeError("the launch failed")
        self.queued.append(Late())
        return LazyTensor(batch.token_ids[:, None].float(), None, self.queued[-1])

    @property
    def wants_rest(self) -> bool:
        return self.deferred > 0

    def rest(self) -> None:
        assert self.rest_may_end.wait(20)
        self.rests += 1
        if self.rest_fails:
            raise RuntimeError("the capture failed")
        self.deferred -= 1


@asynccontextmanager
async def opened(engine: Any) -> AsyncIterator[Lane]:
    async with Lane.opened(lambda: engine) as lane:
        try:
            yield lane
        finally:
            engine.rest_may_end.set()
            for event in engine.queued:
                event.happened.set()


def batch(token: int) -> RaggedBatch:
    return pack([np.array([token], np.uint32)])


async def test_the_next_step_is_queued_while_the_one_before_runs_and_the_third_waits() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        first = lane.start(batch(1))
        await lane.free()
        second = lane.start(batch(2))
        await until(lambda: len(engine.queued) == 2, "both are with the device")
        assert not lane.is_free
        assert not first.done()
        engine.queued[0].happened.set()
        await lane.free()
        third = lane.start(batch(3))
        assert (await first).rows.tolist() == [[1]]
        await until(lambda: len(engine.queued) == 3, "the third is with the device")
        assert not second.done()
        for event in engine.queued:
            event.happened.set()
        assert [(await result).rows.tolist() for result in (second, third)] == [[[2]], [[3]]]


async def test_a_step_handed_over_too_early_is_a_bug() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        started = lane.start(batch(1))
        with pytest.raises(RuntimeError, match="This is a bug"):
            lane.start(batch(2))
        await until(lambda: engine.queued != [], "it is with the device")
        engine.fails = True
        await lane.free()
        failing = lane.start(batch(3))
        with pytest.raises(RuntimeError, match="the launch failed"):
            await failing
        await lane.free()
        engine.queued[0].happened.set()
        await started


async def test_an_idle_device_does_what_it_put_off_one_piece_at_a_time() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        engine.deferred = 2
        lane.rest()
        await until(lambda: engine.rests == 2, "all of it is done")
        running = lane.start(batch(1))
        engine.deferred = 1
        lane.rest()
        await until(lambda: engine.queued != [], "the step is with the device")
        assert engine.rests == 2, "a busy device does not rest"
        engine.queued[0].happened.set()
        await running
        await until(lambda: engine.rests == 3, "it is idle again")


async def test_a_step_that_comes_into_a_rest_waits_for_one_piece_only() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        engine.deferred = 5
        engine.rest_may_end.clear()
        lane.rest()
        running = lane.start(batch(1))
        engine.rest_may_end.set()
        await until(lambda: engine.queued != [], "the step is with the device")
        assert engine.rests == 1
        engine.queued[0].happened.set()
        assert (await running).rows.tolist() == [[1]]


async def test_a_second_leave_to_rest_does_not_make_a_step_wait_for_a_second_piece() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        engine.deferred = 5
        engine.rest_may_end.clear()
        lane.rest()
        lane.rest()
        running = lane.start(batch(1))
        engine.rest_may_end.set()
        await until(lambda: engine.queued != [], "the step is with the device")
        assert engine.rests == 1
        engine.queued[0].happened.set()
        await running


async def test_leave_to_rest_ends_with_the_next_step() -> None:
    """Who gave it may have packed the next step meanwhile, and that one must not wait."""
    engine = QueueingEngine()
    async with opened(engine) as lane:
        lane.rest()
        first = lane.start(batch(1))
        engine.deferred = 1
        await until(lambda: engine.queued != [], "the first step is with the device")
        engine.queued[0].happened.set()
        await first
        second = lane.start(batch(2))
        # One thread: a rest would have come before it.
        await until(lambda: len(engine.queued) == 2, "the second step is with the device")
        assert engine.rests == 0
        engine.queued[1].happened.set()
        await second


async def test_a_rest_that_fails_is_logged_once_and_neither_repeated_nor_in_the_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = QueueingEngine()
    engine.rest_fails = True
    engine.deferred = 1
    async with opened(engine) as lane:
        lane.rest()
        assert lane._resting is not None
        await asyncio.wait({lane._resting})
        running = lane.start(batch(1))
        # One thread: a second try would have come before it.
        await until(lambda: engine.queued != [], "the step is with the device")
        assert engine.rests == 1
        engine.queued[0].happened.set()
        assert (await running).rows.tolist() == [[1]]
    assert [record.getMessage() for record in caplog.records if record.name == "headrace_workers.lane"] == [
        "the device failed in an idle moment: RuntimeError('the capture failed')"
    ]


async def test_run_ms_is_from_the_hand_over_to_the_rows_with_the_wait_behind_the_step_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now_s=10.0)
    monkeypatch.setattr(lane_module, "time", SimpleNamespace(perf_counter=lambda: clock.now_s))
    engine = QueueingEngine()
    async with opened(engine) as lane:
        first = lane.start(batch(1))
        await lane.free()
        clock.now_s = 10.5
        second = lane.start(batch(2))
        await until(lambda: len(engine.queued) == 2, "both are with the device")
        clock.now_s = 11.0
        engine.queued[0].happened.set()
        assert (await first).run_ms == 1000
        clock.now_s = 12.0
        engine.queued[1].happened.set()
        assert (await second).run_ms == 1500


async def test_a_failing_step_does_not_keep_the_next_one_waiting() -> None:
    engine = QueueingEngine()
    engine.fails = True
    async with opened(engine) as lane:
        with pytest.raises(RuntimeError, match="the launch failed"):
            await lane.start(batch(1))
        assert repr(await lane.probe()) == "RuntimeError('the launch failed')"
        engine.fails = False
        await asyncio.wait_for(lane.free(), 20)


@pytest.mark.parametrize(
    "allocate",
    [lambda: torch.empty(2**60, dtype=torch.uint8), lambda: np.empty(2**60, np.uint8)],
    ids=["torch", "numpy"],
)
def test_no_memory_on_the_host_is_told_from_other_failures(allocate: Callable[[], object]) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        allocate()
    assert is_out_of_memory(caught.value)


def test_no_memory_on_the_device_is_told_from_other_failures() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("the launch failed"))


async def test_a_lane_that_is_left_with_a_step_in_hand_ends_quietly(caplog: pytest.LogCaptureFixture) -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        left = lane.start(batch(1))
        await until(lambda: engine.queued != [], "it is with the device")
        # What the lane's thread has to say is not heard before the lane is left.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert left.done()
    assert not caplog.records


async def test_a_step_that_nobody_waits_for_any_more_frees_the_device_all_the_same() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        given_up = lane.start(batch(1))
        await lane.free()
        second = lane.start(batch(2))
        given_up.cancel()
        for event in engine.queued:
            event.happened.set()
        await lane.free()
        await until(lambda: len(engine.queued) == 2, "the second is with the device")
        engine.queued[1].happened.set()
        assert (await second).rows.tolist() == [[2]]
        await until(lambda: lane.is_free and lane._num_in_flight == 0, "both are done")


async def test_a_lane_says_since_when_the_device_has_had_what_it_has_had_longest() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        assert lane.busy_since_s is None
        first = lane.start(batch(1))
        since = lane.busy_since_s
        await lane.free()
        second = lane.start(batch(2))
        await until(lambda: len(engine.queued) == 2, "both are with the device")
        assert (lane.busy_since_s, lane.num_in_flight) == (since, 2)
        engine.queued[0].happened.set()
        await first
        assert lane.busy_since_s is not None
        assert since is not None
        assert lane.busy_since_s > since
        engine.queued[1].happened.set()
        await second
        assert (lane.busy_since_s, lane.num_in_flight) == (None, 0)


async def test_a_capture_that_hangs_keeps_the_device_busy() -> None:
    engine = QueueingEngine()
    async with opened(engine) as lane:
        engine.deferred = 1
        engine.rest_may_end.clear()
        lane.rest()
        assert lane.busy_since_s is not None
        engine.rest_may_end.set()
        await until(lambda: lane.busy_since_s is None, "it is done")
