"""A worker inside the test's own process, around a real engine whose steps the test can hold and look into."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import torch
from headrace_engine import Checkpoint, Engine, LazyTensor, RaggedBatch
from headrace_engine.graphs import Graphs
from headrace_workers import Counters, WorkerConfig
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.lane import LoadedEngine
from headrace_workers.serve import serve
from headrace_workers.worker import Worker


def brisk(url: str, **settings: Any) -> WorkerConfig:
    """Settings of a worker whose pulls are short, so that it drains soon."""
    return WorkerConfig(nats_url=url, **{"pull_expires_s": 0.2, **settings})


class WatchedEngine:
    """A real engine that remembers the token ids of each step, fails on request, and waits when it is held."""

    def __init__(self, engine: Engine, *, held: bool = False, poison: int | None = None) -> None:
        self._engine = engine
        self._poison = poison
        self._open = threading.Event()
        self._permits = threading.Semaphore(0)
        if not held:
            self._open.set()
        self.is_sick = False
        self.is_full = False
        self.num_probes = 0
        self.steps: list[frozenset[int]] = []
        self.step_tokens: list[int] = []

    @property
    def checkpoint(self) -> Checkpoint:
        return self._engine.checkpoint

    @property
    def dtype(self) -> torch.dtype:
        return self._engine.dtype

    @property
    def device(self) -> torch.device:
        return self._engine.device

    @property
    def graphs(self) -> Graphs | None:
        return self._engine.graphs

    @property
    def max_in_flight(self) -> int:
        return self._engine.max_in_flight

    @property
    def wants_rest(self) -> bool:
        return self._engine.wants_rest

    def rest(self) -> None:
        self._engine.rest()

    def step(self, batch: RaggedBatch) -> LazyTensor:
        ids = frozenset(batch.token_ids.tolist())
        if ids == {0}:
            self.num_probes += 1
        else:
            self.steps.append(ids)
            self.step_tokens.append(batch.num_tokens)
            if not self._open.is_set():
                self._permits.acquire()
        if self.is_sick:
            raise RuntimeError("the device fell off the bus")
        if self.is_full and ids != {0}:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self._poison in ids:
            raise RuntimeError("this token id makes the engine fail")
        return self._engine.step(batch)

    def permit(self, steps: int = 1) -> None:
        """Let so many held steps go on."""
        self._permits.release(steps)

    def release(self) -> None:
        """Hold no step any more."""
        self._open.set()
        self._permits.release(1)


@dataclass
class Running:
    """A worker at work."""

    worker: Worker
    stop: asyncio.Event
    serving: "asyncio.Task[Counters]"

    @property
    def counters(self) -> Counters:
        return self.worker.counters

    async def drain(self) -> Counters:
        self.stop.set()
        return await self.serving


@asynccontextmanager
async def running(
    engine: LoadedEngine, config: WorkerConfig, calibration: Calibration | Absence | None = None
) -> AsyncIterator[Running]:
    """Serve while the context lasts, by a calibration where there is one, then drain."""
    stop = asyncio.Event()
    ready: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(lambda: engine, config, stop, ready.set_result, lambda: calibration))
    serving.add_done_callback(lambda _: ready.cancel() if not ready.done() else None)
    try:
        worker = await ready
    except asyncio.CancelledError:
        await serving  # it refused to start: raise why
        raise
    try:
        yield Running(worker, stop, serving)
    finally:
        if isinstance(engine, WatchedEngine):
            engine.release()
        stop.set()
        if not serving.done():
            await serving
