"""The lane: the one thread that owns the device.

Knows that steps run one after the other, how many the device may have in hand, and how to wait for one without blocking
the event loop. Does not know what a step is made of, nor who waits for it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import numpy as np
import torch
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch, pack
from headrace_engine.graphs import Graphs
from numpy.typing import NDArray

logger = logging.getLogger(__name__)


class LoadedEngine(Protocol):
    """What a lane runs and a worker describes: an engine with its model loaded."""

    @property
    def checkpoint(self) -> Checkpoint:
        """What was loaded."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        ...

    @property
    def max_in_flight(self) -> int:
        """How many steps may be queued before the first one's rows are read."""
        ...

    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Queue the batch, or run it; rows [n, dim] float32 in the caller's order, once read."""
        ...

    @property
    def wants_rest(self) -> bool:
        """Whether there is work for an idle moment."""
        ...

    def rest(self) -> object:
        """Do one piece of it."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        ...

    @property
    def graphs(self) -> Graphs | None:
        """The CUDA graphs that it has, with their counters; None where there are none."""
        ...


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave.

    Attributes:
        rows: [n, dim] float32, in the order that the sequences were packed in.
        run_ms: from the moment the step was handed to the device until its rows were there. Where two are in flight, it
            includes the wait behind the step before.
    """

    rows: NDArray[np.float32]
    run_ms: float


class Lane:
    """Runs steps on one thread of its own, one at a time.

    A device that queues gets the next step while it runs the one before, up to its `max_in_flight`, and a second thread
    waits for the rows; the others get the next one when the last is done.

    Attributes:
        engine: what it runs.
        busy_since_s: since when, by the monotonic clock, the device has had whatever it has had longest; None while it
            has nothing.
    """

    def __init__(self, engine: LoadedEngine, thread: ThreadPoolExecutor, reader: ThreadPoolExecutor) -> None:
        """Use `opened`."""
        self.engine = engine
        self.busy_since_s: float | None = None
        self._begun: dict[object, float] = {}
        self._thread = thread
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._is_starting = False
        self._num_in_flight = 0
        self._changed = asyncio.Event()
        self._may_rest = False
        self._resting: asyncio.Future[object] | None = None

    @classmethod
    @asynccontextmanager
    async def opened(cls, load: Callable[[], LoadedEngine]) -> "AsyncIterator[Lane]":
        """Start the thread and load the engine on it; raises what `load` raises. The end waits for the running step.

        On it and not on another: each thread that computes gets an OpenMP team of its own, and two teams on the same
        cores put each other to sleep. A short step took twice as long for it (ops/decisions/0011).
        """
        with (
            ThreadPoolExecutor(1, thread_name_prefix="reader") as reader,
            ThreadPoolExecutor(1, thread_name_prefix="lane") as thread,
        ):
            lane = cls(await asyncio.get_running_loop().run_in_executor(thread, load), thread, reader)
            try:
                yield lane
            finally:
                lane._is_closed = True

    @property
    def is_free(self) -> bool:
        """Whether a step can be handed over."""
        return not self._is_starting and self._num_in_flight < self.engine.max_in_flight

    @property
    def num_in_flight(self) -> int:
        """Steps that were handed over and are not done."""
        return self._num_in_flight

    async def free(self) -> None:
        """Wait until a step can be handed over; whether an earlier one failed is its owner's affair."""
        while not self.is_free:
            self._changed.clear()
            await self._changed.wait()

    def start(self, batch: RaggedBatch) -> "asyncio.Future[StepResult]":
        """Hand a step to the device. Await the result wherever it is needed."""
        if not self.is_free:
            raise RuntimeError("This is a bug: a step was handed over while the device had its fill")
        self._may_rest = False
        self._is_starting = True
        self._num_in_flight += 1
        result: asyncio.Future[StepResult] = self._loop.create_future()
        self._begin(result)
        self._thread.submit(self._start, batch, result)
        return result

    def _start(self, batch: RaggedBatch, result: "asyncio.Future[StepResult]") -> None:
        """On the lane's thread. It tells the event loop itself: a future and a task between cost a query 50 µs."""
        try:
            queued = _Queued(time.perf_counter(), self.engine.step(batch))
            # Nothing to wait for: a hop to the other thread would only cost time.
            outcome: StepResult | _Queued | BaseException = queued.read() if queued.rows.done() else queued
        except BaseException as error:  # noqa: BLE001 - whatever a step raises is its result
            outcome = error
        self._loop.call_soon_threadsafe(self._started, outcome, result)

    def _started(self, outcome: "StepResult | _Queued | BaseException", result: "asyncio.Future[StepResult]") -> None:
        self._is_starting = False
        if not isinstance(outcome, _Queued):
            self._finished(outcome, result)
        elif self._is_closed:  # the worker had to end; nobody reads the rows
            result.cancel()
        else:
            self._reader.submit(self._read, outcome, result)
            self._changed.set()

    def _read(self, queued: "_Queued", result: "asyncio.Future[StepResult]") -> None:
        """On the reader's thread."""
        outcome: StepResult | BaseException
        try:
            outcome = queued.read()
        except BaseException as error:  # noqa: BLE001 - whatever a step raises is its result
            outcome = error
        self._loop.call_soon_threadsafe(self._finished, outcome, result)

    def _finished(self, outcome: StepResult | BaseException, result: "asyncio.Future[StepResult]") -> None:
        self._num_in_flight -= 1
        self._end(result)
        self._changed.set()
        if not result.done():  # it is, where its worker waits no more
            if isinstance(outcome, StepResult):
                result.set_result(outcome)
            else:
                result.set_exception(outcome)
                result.exception()  # its worker may have to end before it looks, which asyncio would complain of
        self._rest_if_idle()

    def rest(self) -> None:
        """Nothing waits for the device: let it use the time until the next step.

        A step that comes meanwhile waits for one piece of such work at most.
        """
        self._may_rest = True
        self._rest_if_idle()

    def _rest_if_idle(self) -> None:
        is_idle = self._may_rest and not self._num_in_flight and self._resting is None and not self._is_closed
        if is_idle and self.engine.wants_rest:
            self._resting = asyncio.get_running_loop().run_in_executor(self._thread, self.engine.rest)
            self._begin(self._resting)
            self._resting.add_done_callback(self._rested)

    def _rested(self, resting: "asyncio.Future[object]") -> None:
        self._resting = None
        self._end(resting)
        if resting.cancelled():
            return
        if resting.exception() is not None:
            # A step would say so too, and then its chunks are answered.
            logger.error("the device failed in an idle moment: %r", resting.exception())
            return
        self._rest_if_idle()

    async def probe(self) -> Exception | None:
        """What the device fails with on a step of one token, after those that it has in hand; None where it runs."""
        one_token = pack([np.zeros(1, np.uint32)])

        def run() -> None:
            self.engine.step(one_token).wait()

        try:
            probing = asyncio.get_running_loop().run_in_executor(self._thread, run)
        except RuntimeError as error:  # the lane was closed
            return error
        self._begin(probing)
        try:
            await probing
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
            return error
        finally:
            self._end(probing)
        return None

    def _begin(self, task: object) -> None:
        self._begun[task] = monotonic()
        self.busy_since_s = min(self._begun.values())

    def _end(self, task: object) -> None:
        del self._begun[task]
        self.busy_since_s = min(self._begun.values(), default=None)


@dataclass(frozen=True, slots=True)
class _Queued:
    """A step that the device has, and that nobody has waited for."""

    started_s: float
    rows: LazyTensor

    def read(self) -> StepResult:
        return StepResult(self.rows.numpy(), (time.perf_counter() - self.started_s) * 1000)


def is_out_of_memory(error: Exception) -> bool:
    """Whether a step failed for want of memory, on the device or on the host."""
    # torch has a class for its devices alone; on the host its allocator raises a RuntimeError.
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
