"""An engine that answers with hashes of token ids, and falls ill when a file says so.

It knows how each ailment shows. What a worker does about it is the real worker's affair.
"""

import time
from pathlib import Path

import torch
from bulk.stand_in_engine import StandInEngine
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch

from survival.ailment import Ailment, Chart

_LOOK_EVERY_S = 0.01  # a file has no event
_SAID = {"lost": "the device fell off the bus", "fails": "an illegal instruction was encountered"}


class AilingEngine:
    """A stand-in engine that a chart may make ill.

    Attributes:
        checkpoint: Of the model whose place it takes.
        dtype: What that would compute in.
        max_in_flight: One step at a time, as on a CPU.
        wants_rest: Never.
        device: The CPU.
        graphs: None.
    """

    device = torch.device("cpu")
    graphs = None

    def __init__(self, engine: StandInEngine, chart: Chart | None = None) -> None:
        """Take the engine that answers while all is well; `load` is the usual way."""
        self.checkpoint: Checkpoint = engine.checkpoint
        self.dtype = engine.dtype
        self.max_in_flight = engine.max_in_flight
        self.wants_rest = False
        self._engine = engine
        self._chart = chart
        self._ailment = Ailment()
        self._steps_left = 0

    @classmethod
    def load(cls, model: str | Path, tokens_per_s: float | None, ailments: Path | None) -> "AilingEngine":
        """Read a model's checkpoint, and none of its weights.

        Args:
            model: As `Engine.load` takes it; raises what that raises.
            tokens_per_s: See StandInEngine.
            ailments: File of the chart, which need not be there; None keeps it well.
        """
        chart = None if ailments is None else Chart(ailments)
        return cls(StandInEngine.load(model, tokens_per_s), chart)

    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Give [num_sequences, dim] float32, or suffer.

        Raises:
            RuntimeError: It is ill.
        """
        self._look()
        kind = self._ailment.kind
        if not self._steps_left or (_is_probe(batch) and kind not in {"lost", "hangs"}):
            return self._engine.step(batch)
        if kind != "lost" and not _is_probe(batch):
            self._steps_left -= 1
        if kind in {"lost", "fails"}:
            raise RuntimeError(f"CUDA error: {_SAID[kind]}")
        if kind == "hangs":
            self._hang(self._ailment.seconds)
        rows = self._engine.step(batch)
        return rows if kind != "not a number" else _none(batch, self.checkpoint.dim)

    def _look(self) -> bool:
        """See what the chart says; whether that is new."""
        news = None if self._chart is None else self._chart.news()
        if news is not None:
            self._ailment, self._steps_left = news, news.steps
        return news is not None

    def _hang(self, seconds: float) -> None:
        """On the lane's thread, which a device that hangs keeps, too; it goes on when the chart says something new."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not self._look():
            time.sleep(_LOOK_EVERY_S)

    def rest(self) -> None:
        """Nothing waits for an idle moment."""


def _is_probe(batch: RaggedBatch) -> bool:
    """Whether a worker asks if the device runs at all: by one token, which no text comes to."""
    return batch.num_tokens == 1


def _none(batch: RaggedBatch, dim: int) -> LazyTensor:
    return LazyTensor(torch.full((batch.num_sequences, dim), torch.nan), batch.order)
