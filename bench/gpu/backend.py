"""How a model is run by one attention backend: eagerly, and with graphs.

It knows what the engine offers for it and uses just that, so that what is checked is what a worker runs. It does not
know what is run.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from headrace_engine.attention import AttentionBackend, CapturableBackend
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.buckets import Buckets
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.load import capturable, capturing, load
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.graphs import Graphs
from headrace_engine.limits import Limits
from headrace_engine.model import Model
from headrace_engine.runner import EagerRunner, Runner

from gpu.model import Built

_EAGER = EngineConfig(graphs=None)


@dataclass(frozen=True, slots=True)
class Graphing:
    """A runner that captures graphs.

    Attributes:
        runner: The runner.
        graphs: Its graphs.
    """

    runner: CudaRunner
    graphs: Graphs

    @property
    def buckets(self) -> Buckets:
        """The buckets of its graphs."""
        return self.graphs.buckets


class Backend(Protocol):
    """One attention backend on one device."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def device(self) -> torch.device:
        """The device."""

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""

    def attention(self, model: Model) -> AttentionBackend:
        """It alone, for the shapes of a model."""

    def eager(self, built: Built) -> Runner:
        """A runner without graphs."""

    def graphing(self, built: Built, config: EngineConfig) -> Graphing | None:
        """A runner with graphs; None where nothing can be captured."""


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """The only one on a CPU."""

    name: str
    device: torch.device
    dtype: torch.dtype

    def attention(self, model: Model) -> AttentionBackend:  # noqa: ARG002 - the interface's
        """See `Backend.attention`."""
        return SdpaBackend()

    def eager(self, built: Built) -> Runner:
        """See `Backend.eager`."""
        return EagerRunner(built.model, SdpaBackend())

    def graphing(self, built: Built, config: EngineConfig) -> None:
        """See `Backend.graphing`."""


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """One that the engine loads on a CUDA device."""

    name: str
    device: torch.device
    dtype: torch.dtype

    def attention(self, model: Model) -> AttentionBackend:
        """See `Backend.attention`."""
        return capturable(self.name, model, _EAGER, self.dtype, self.device) or SdpaBackend()

    def eager(self, built: Built) -> Runner:
        """See `Backend.eager`."""
        return load(built.model, self.name, _EAGER, built.limits, self.dtype, self.device)

    def graphing(self, built: Built, config: EngineConfig) -> Graphing | None:
        """See `Backend.graphing`."""
        return _graphing(load(built.model, self.name, config, built.limits, self.dtype, self.device))


def assemble(
    model: Model, attention: CapturableBackend, limits: Limits, config: EngineConfig, device: torch.device
) -> Graphing | None:
    """Put a runner together as the engine's `load` does, but with an attention backend that it does not know."""
    return _graphing(capturing(model, attention, config, limits, Copies(device)))


def _graphing(runner: CudaRunner) -> Graphing | None:
    return None if runner.graphs is None else Graphing(runner, runner.graphs)
