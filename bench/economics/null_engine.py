"""An engine that answers at once, so that what is left of a call is the message path.

It knows a real model's checkpoint, which says what clients and workers must know of it, and hands out rows that are
there already. It knows no weights and does not look at tokens.
"""

from pathlib import Path

import torch
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch
from headrace_engine.resolve import resolve


class NullEngine:
    """What a lane runs, without the work: every row is the same unit vector.

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

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Take the place of a model; `load` is the usual way."""
        self.checkpoint = checkpoint
        self.dtype = torch.float32
        self.max_in_flight = 1
        self.wants_rest = False
        self._answers: dict[int, LazyTensor] = {}

    @classmethod
    def load(cls, model: str | Path) -> "NullEngine":
        """Read a model's checkpoint, and none of its weights.

        Args:
            model: As `Engine.load` takes it; raises what that raises.
        """
        return cls(Checkpoint.read(resolve(model), str(model)))

    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Give [num_sequences, dim] float32 at once."""
        num, dim = batch.num_sequences, self.checkpoint.dim
        if num not in self._answers:
            self._answers[num] = LazyTensor(torch.full((num, dim), dim**-0.5))
        # The same one again: who reads it never writes, and making one is an engine's work.
        return self._answers[num]

    def rest(self) -> None:
        """Nothing waits for an idle moment."""
