"""The lane with a device that queues, as a CUDA device does: steps return before their rows are there."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import pytest
import torch
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch, pack
from headrace_workers.lane import Lane

from ..waiting import until


class Late:
    """An event that the test lets happen."""

    def __init__(self) -> None:
        self.happened = threading.Event()

    def query(self) -> bool:
        return self.happened.is_set()

    def synchronize(self) -> None:
        assert self.happened.wait(20)


class QueueingDevice:
    """Queues every step and finishes it when the test says so."""

    checkpoint = cast("Checkpoint", None)
    dtype = torch.float32
    max_in_flight = 2

    def __init__(self) -> None:
        self.queued: list[Late] = []
        self.deferred = 0
        self.rests = 0
        self.fails = False
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
        self.deferred -= 1
        self.rests += 1


@asynccontextmanager
async def opened(device: Any) -> AsyncIterator[Lane]:
    async with Lane.opened(lambda: device) as lane:
        try:
            yield lane
        finally:
            device.rest_may_end.set()
            for event in device.queued:
                event.happened.set()


def batch(token: int) -> RaggedBatch:
    return pack([np.array([token], np.uint32)])


async def test_the_next_step_is_queued_while_the_one_before_runs_and_the_third_waits() -> None:
    device = QueueingDevice()
    async with opened(device) as lane:
        first = lane.start(batch(1))
        await lane.free()
        second = lane.start(batch(2))
        await until(lambda: len(device.queued) == 2, "both are with the device")
        assert not lane.is_free
        assert not first.done()
        device.queued[0].happened.set()
        await lane.free()
        third = lane.start(batch(3))
        assert (await first).rows.tolist() == [[1]]
        await until(lambda: len(device.queued) == 3, "the third is with the device")
        assert not second.done()
        for event in device.queued:
            event.happened.set()
        assert [(await result).rows.tolist() for result in (second, third)] == [[[2]], [[3]]]


async def test_a_step_handed_over_too_early_is_a_bug() -> None:
    device = QueueingDevice()
    async with opened(device) as lane:
        started = lane.start(batch(1))
        with pytest.raises(RuntimeError, match="This is a bug"):
            lane.start(batch(2))
        await until(lambda: device.queued != [], "it is with the device")
        device.fails = True
        await lane.free()
        failing = lane.start(batch(3))
        with pytest.raises(RuntimeError, match="the launch failed"):
            await failing
        await lane.free()
        device.queued[0].happened.set()
        await started


async def test_an_idle_device_does_what_it_put_off_one_piece_at_a_time() -> None:
    device = QueueingDevice()
    async with opened(device) as lane:
        device.deferred = 2
        lane.rest()
        await until(lambda: device.rests == 2, "all of it is done")
        running = lane.start(batch(1))
        device.deferred = 1
        lane.rest()
        await until(lambda: device.queued != [], "the step is with the device")
        assert device.rests == 2, "a busy device does not rest"
        device.queued[0].happened.set()
        await running
        await until(lambda: device.rests == 3, "it is idle again")


async def test_a_step_that_comes_into_a_rest_waits_for_one_piece_only() -> None:
    device = QueueingDevice()
    async with opened(device) as lane:
        device.deferred = 5
        device.rest_may_end.clear()
        lane.rest()
        running = lane.start(batch(1))
        device.rest_may_end.set()
        await until(lambda: device.queued != [], "the step is with the device")
        assert device.rests == 1
        device.queued[0].happened.set()
        assert (await running).rows.tolist() == [[1]]


async def test_a_failing_step_does_not_keep_the_next_one_waiting() -> None:
    device = QueueingDevice()
    device.fails = True
    async with opened(device) as lane:
        with pytest.raises(RuntimeError, match="the launch failed"):
            await lane.start(batch(1))
        assert not await lane.probe()
        device.fails = False
        await asyncio.wait_for(lane.free(), 20)
