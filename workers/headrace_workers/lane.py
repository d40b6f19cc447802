"""The lane: the one thread that owns the device.

Knows that steps run one after the other and how to wait for one without blocking the event loop. Does not know what a
step is made of, nor who waits for it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch, pack
from numpy.typing import NDArray


class Device(Protocol):
    """What a lane runs and a worker describes: an engine with its model loaded."""

    @property
    def checkpoint(self) -> Checkpoint:
        """What was loaded."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        ...

    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Run the batch; rows [n, dim] float32 in the caller's order."""
        ...


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave.

    Attributes:
        rows: [n, dim] float32, in the order that the sequences were packed in.
        run_ms: from the start of the step to its rows.
    """

    rows: NDArray[np.float32]
    run_ms: float


class Lane:
    """Runs steps on one thread of its own, one at a time: the next one is handed over when the last is done.

    Attributes:
        device: what it runs.
    """

    def __init__(self, device: Device, thread: ThreadPoolExecutor) -> None:
        """Use `opened`."""
        self.device = device
        self._thread = thread
        self._running: asyncio.Future[StepResult] | None = None

    @classmethod
    @asynccontextmanager
    async def opened(cls, load: Callable[[], Device]) -> "AsyncIterator[Lane]":
        """Start the thread and load the device on it; raises what `load` raises. The end waits for the running step.

        On it and not on another: each thread that computes gets an OpenMP team of its own, and two teams on the same
        cores put each other to sleep. A short step took twice as long for it (ops/decisions/0011).
        """
        with ThreadPoolExecutor(1, thread_name_prefix="lane") as thread:
            yield cls(await asyncio.get_running_loop().run_in_executor(thread, load), thread)

    @property
    def is_idle(self) -> bool:
        """Whether no step is running."""
        return self._running is None or self._running.done()

    async def free(self) -> None:
        """Wait until a step can be handed over; whether the last one failed is its owner's affair."""
        if self._running is not None:
            await asyncio.wait({self._running})

    def start(self, batch: RaggedBatch) -> "asyncio.Future[StepResult]":
        """Hand a step to the device. Await the result wherever it is needed."""
        if not self.is_idle:
            raise RuntimeError("This is a bug: a step was handed over while another runs")
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._run, batch)
        return self._running

    async def probe(self) -> bool:
        """Whether the device can run a step of one token, after the one that runs now."""
        one_token = pack([np.zeros(1, np.uint32)])
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._run, one_token)
        except Exception:  # noqa: BLE001 - whatever it raises is the answer
            return False
        return True

    def _run(self, batch: RaggedBatch) -> StepResult:
        started = time.perf_counter()
        rows = self.device.step(batch).numpy()
        return StepResult(rows, (time.perf_counter() - started) * 1000)
