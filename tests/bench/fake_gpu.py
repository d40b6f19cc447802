"""A CUDA device for the stages of gpu_check.py, on the CPU: the engine's fake runtime, and what stages ask besides."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from gpu.backend import Graphing, assemble
from gpu.bench import Bench, Sizes
from gpu.model import Built
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.graph import CudaEager
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.model import Model
from headrace_engine.runner import Runner

from ..engine.fake_cuda import CPU, CapturedModel, ReplannedBackend, Runtime, checked
from ..engine.fake_cuda import installed as runtime_installed

SIZES = Sizes(races=40, shapes=200, case_s=0.001, bulk_s=0.01, bulk=(4, 16))


@dataclass
class Memory:
    """What the fake device says of its memory."""

    free: int = 64 * 2**20
    total: int = 256 * 2**20
    reserved: int = 0
    synchronised: int = 0
    error: str | None = None
    calls: list[str] = field(default_factory=list)

    def synchronize(self, *_: Any) -> None:
        self.synchronised += 1
        if self.error is not None:
            raise RuntimeError(self.error)


def installed(monkeypatch: Any) -> tuple[Runtime, Memory]:
    """Put a device in the place of torch.cuda's; whatever is asked of it is bound to torch's signature first."""
    runtime, memory = runtime_installed(monkeypatch), Memory()
    fakes: dict[str, Callable[..., Any]] = {
        "synchronize": memory.synchronize,
        "empty_cache": lambda: memory.calls.append("empty_cache"),
        "mem_get_info": lambda *_: (memory.free, memory.total),
        "memory_reserved": lambda *_: memory.reserved,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, checked(getattr(torch.cuda, name), fake))
    monkeypatch.setattr("gpu.device.is_cuda", lambda _: True)
    return runtime, memory


@dataclass(frozen=True)
class FakeBackend:
    """SDPA on the CPU, captured by the fake runtime."""

    runtime: Runtime
    name: str = "fake"
    device: torch.device = CPU
    dtype: torch.dtype = torch.bfloat16

    def attention(self, model: Model) -> ReplannedBackend:  # noqa: ARG002 - the interface's
        return ReplannedBackend()

    def eager(self, built: Built) -> Runner:
        copies = Copies(self.device)
        return CudaRunner(CudaEager(built.model, SdpaBackend(), copies), None, copies)

    def graphing(self, built: Built, config: EngineConfig) -> Graphing | None:
        model = cast("Model", CapturedModel(built.model, self.runtime))
        return assemble(model, ReplannedBackend(), built.limits, config, self.device)


def bench(runtime: Runtime, sizes: Sizes = SIZES) -> Bench:
    return Bench(FakeBackend(runtime), sizes, lambda: None)
