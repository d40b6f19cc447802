"""How a model is run by one attention backend: eagerly, and with graphs.

It knows what the engine offers for it and uses just that, so that what is checked is what a worker runs. It does not
know what is run.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from headrace_engine.attention import AttentionBackend, CapturableBackend
from headrace_engine.attention.flash4 import Flash4Backend
from headrace_engine.attention.flashinfer import FlashInferBackend
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.attention.varlen import VarlenBackend
from headrace_engine.buckets import Buckets
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.copies import Copies
from headrace_engine.cuda.graph import CudaCaptures
from headrace_engine.cuda.load import capturable, load
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.graphs import Graphs
from headrace_engine.limits import Limits
from headrace_engine.model import Model
from headrace_engine.runner import EagerRunner, Runner

from gpu.model import Built

_EAGER = EngineConfig(graphs=None)
_BAKES_MAX_SEQLEN = {
    "fa2": FlashInferBackend.bakes_max_seqlen,
    "fa3": FlashInferBackend.bakes_max_seqlen,
    "fa4": Flash4Backend.bakes_max_seqlen,
    "varlen": VarlenBackend.bakes_max_seqlen,
}


@dataclass(frozen=True, slots=True)
class Graphing:
    """A runner that captures graphs.

    Attributes:
        runner: The runner.
        graphs: Its graphs.
        buckets: Its buckets.
    """

    runner: CudaRunner
    graphs: Graphs
    buckets: Buckets


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
        if self.name not in _BAKES_MAX_SEQLEN:
            return None
        runner = load(built.model, self.name, config, built.limits, self.dtype, self.device)
        if runner.graphs is None:
            return None
        buckets = buckets_of(built.limits, config, bakes_max_seqlen=_BAKES_MAX_SEQLEN[self.name])
        return Graphing(runner, runner.graphs, buckets)


def assemble(
    model: Model, attention: CapturableBackend, limits: Limits, config: EngineConfig, device: torch.device
) -> Graphing:
    """Put a runner together as the engine's `load` does, but with an attention backend that it does not know."""
    copies = Copies(device)
    captures = CudaCaptures(
        model, attention, copies, has_segments=limits.num_segments > 1, has_skips=not limits.include_prompt
    )
    buckets = buckets_of(limits, config, bakes_max_seqlen=attention.bakes_max_seqlen)
    graphs = Graphs(captures, buckets, config.graphs)
    return Graphing(CudaRunner(captures, graphs, copies), graphs, buckets)


def buckets_of(limits: Limits, config: EngineConfig, *, bakes_max_seqlen: bool) -> Buckets:
    """The buckets that `load` makes."""
    return Buckets(
        max_tokens=config.max_graph_tokens, max_length=limits.max_length, buckets_max_seqlen=bakes_max_seqlen
    )
