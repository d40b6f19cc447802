"""CUDA's runtime as far as the engine calls it, on the CPU, so that its edge can run where there is no device.

Every call is bound to the signature of the installed torch first. Work runs at once and in order, but a graph only runs
its work when it is replayed, an event only happens when somebody waits for it, and rows only reach the host by then.
"""

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.batch import RaggedBatch
from headrace_engine.model import Model

CPU = torch.device("cpu")


@dataclass
class Runtime:
    """What was called, in order, and on which CUDA stream."""

    calls: list[str] = field(default_factory=list)
    streams: list["FakeStream"] = field(default_factory=list)
    current: "FakeStream | None" = None
    capturing: "FakeGraph | None" = None
    capture_error: str | None = None
    queued: list["FakeEvent | Callable[[], None]"] = field(default_factory=list)  # events, and copies before them
    waits: int = 0  # for events that had not happened
    pools: dict[Any, int] = field(default_factory=dict)  # graphs in each; one that had some and has none is gone

    def say(self, call: str) -> None:
        assert self.capturing is None or not call.startswith(("event", "synchronize")), f"{call} breaks a capture"
        self.calls.append(f"{self.current.name if self.current else 'default'}: {call}")

    def copy(self, destination: torch.Tensor, source: torch.Tensor) -> None:
        """Queue a copy: at once on the way in, since what is computed at once reads it; later on the way out."""
        assert self.current is not None, "a copy was queued on the default CUDA stream"
        if self.current is not self.streams[0]:
            destination.copy_(source)
            return
        there = weakref.ref(source)

        def late() -> None:
            found = there()
            assert found is not None, "rows were given back before they were copied"
            destination.copy_(found)

        self.queued.append(late)


class FakeStream:
    def __init__(self, runtime: Runtime, name: str) -> None:
        self.runtime, self.name = runtime, name

    def wait_stream(self, stream: "FakeStream") -> None:
        self.runtime.say(f"{self.name} waits for {stream.name}")

    def wait_event(self, event: "FakeEvent") -> None:
        self.runtime.say(f"{self.name} waits for an event of {event.stream}")

    def synchronize(self) -> None:
        self.runtime.say(f"synchronize {self.name}")


class FakeEvent:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.stream, self.happened = runtime, "", False

    def record(self) -> None:
        assert self.runtime.current is not None, "an event was recorded on the default CUDA stream"
        self.stream = self.runtime.current.name
        self.runtime.queued.append(self)
        self.runtime.say("event")

    def query(self) -> bool:
        return self.happened

    def synchronize(self) -> None:
        if self.happened:
            return
        self.runtime.waits += 1
        # Work is done in the order it was queued in.
        while not self.happened:
            work = self.runtime.queued.pop(0)
            if isinstance(work, FakeEvent):
                work.happened = True
            else:
                work()


class FakeGraph:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.work: list[Callable[[], object]] = []
        self.pool: Any = None

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self.pool is not None:
            self.runtime.pools[self.pool] -= 1
            self.pool = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        assert self.runtime.capturing is None
        assert self.runtime.pools.get(pool) != 0, "the pool went with its last graph"
        self.runtime.pools[pool] = self.runtime.pools.get(pool, 0) + 1
        self.pool = pool
        self.runtime.say(f"begin {capture_error_mode} in {pool}")
        self.runtime.capturing = self

    def capture_end(self) -> None:
        self.runtime.capturing = None
        self.runtime.say("end")
        if self.runtime.capture_error is not None:
            raise RuntimeError("the capture was invalidated")

    def replay(self) -> None:
        self.runtime.say("replay")
        for step in self.work:
            step()

    def reset(self) -> None:
        self.runtime.say("reset")
        self.work.clear()
        self._leave()


_CLASSES = ((torch.cuda.Stream, FakeStream), (torch.cuda.Event, FakeEvent), (torch.cuda.CUDAGraph, FakeGraph))


def installed(monkeypatch: Any) -> Runtime:
    """Put the runtime in the place of torch.cuda's."""
    runtime, handles = Runtime(), count(1)

    def new_stream(*_: Any) -> FakeStream:
        runtime.streams.append(FakeStream(runtime, f"stream {len(runtime.streams)}"))
        return runtime.streams[-1]

    @contextlib.contextmanager
    def stream(chosen: FakeStream) -> Iterator[None]:
        before, runtime.current = runtime.current, chosen
        try:
            yield
        finally:
            runtime.current = before

    fakes: dict[str, Callable[..., Any]] = {
        "Stream": new_stream,
        "Event": lambda **_: FakeEvent(runtime),
        "CUDAGraph": lambda: FakeGraph(runtime),
        "stream": stream,
        "current_stream": lambda _: runtime.current or FakeStream(runtime, "default"),
        # Every pool is a new one: one that no graph is left in takes no other.
        "graph_pool_handle": lambda: (0, next(handles)),
        "memory_reserved": lambda _: 0,
    }
    for real, fake_class in _CLASSES:
        for method in vars(fake_class):
            if not method.startswith("_"):
                fake = checked(getattr(real, method), getattr(fake_class, method))
                monkeypatch.setattr(fake_class, method, fake)
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, checked(getattr(torch.cuda, name), fake))

    monkeypatch.setattr("headrace_engine.cuda.copies._copy", runtime.copy)
    # A build without CUDA has no such function.
    clear = "_cuda_clearCublasWorkspaces"
    monkeypatch.setattr(torch._C, clear, lambda: runtime.say("workspaces cleared"), raising=False)
    monkeypatch.setattr(
        "headrace_engine.cuda.copies._page_locked", lambda num_bytes: torch.empty(num_bytes, dtype=torch.uint8)
    )
    return runtime


def checked(real: Any, fake: Callable[..., Any]) -> Callable[..., Any]:
    """The fake, which takes only what the real one takes; what has no signature in Python is taken as it is."""
    is_class = inspect.isclass(real)
    try:
        signature = inspect.signature(real.__new__ if is_class else real)
    except ValueError:
        return fake

    def call(*args: Any, **kwargs: Any) -> Any:
        signature.bind(*((real, *args) if is_class else args), **kwargs)
        return fake(*args, **kwargs)

    return call


class CapturedModel:
    """A model that a fake graph can capture: its work is done again at each replay."""

    def __init__(self, model: Model, runtime: Runtime) -> None:
        self.model, self.runtime = model, runtime

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        rows = self.model(batch, attention)
        graph = self.runtime.capturing
        if graph is not None:
            if self.runtime.capture_error is not None:
                raise RuntimeError(self.runtime.capture_error)
            graph.work.append(lambda: rows.copy_(self.model(batch, attention)))
            rows.fill_(float("nan"))  # a capture computes nothing
        return rows


class ReplannedBackend(SdpaBackend):
    """CPU attention with a plan that follows the buffers of a graph."""

    bakes_max_seqlen = True

    def plan_static(self, static: RaggedBatch) -> "ReplannedAttention":
        return ReplannedAttention(self, static)


class ReplannedAttention:
    def __init__(self, backend: SdpaBackend, static: RaggedBatch) -> None:
        self.backend = backend
        self.plan = backend.plan(static)

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        shape: AttentionShape,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.plan.run(query, key, value, shape, bias)

    def update(self, padded: RaggedBatch) -> None:
        self.plan = self.backend.plan(padded)
