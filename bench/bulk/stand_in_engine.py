"""An engine that takes a real model's place and answers with hashes of token ids, as fast as it is told to.

It knows the checkpoint, which says what clients and workers must know of a model. It knows no weights.
"""

import time
from pathlib import Path

import torch
from headrace_engine import Checkpoint, LazyTensor, RaggedBatch
from headrace_engine.resolve import resolve

from bulk.hashed import Hashed


class StandInEngine:
    """What a lane runs.

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

    def __init__(self, checkpoint: Checkpoint, tokens_per_s: float | None = None) -> None:
        """Take the place of a model; `load` is the usual way.

        Args:
            checkpoint: Of the model.
            tokens_per_s: A step of so many tokens takes a second, for jobs that should last; None is no longer than it
                takes.
        """
        self.checkpoint = checkpoint
        self.dtype = torch.float32
        self.max_in_flight = 1
        self.wants_rest = False
        self._hashed = Hashed(checkpoint.dim)
        self._tokens_per_s = tokens_per_s

    @classmethod
    def load(cls, model: str | Path, tokens_per_s: float | None = None) -> "StandInEngine":
        """Read a model's checkpoint, and none of its weights.

        Args:
            model: As `Engine.load` takes it; raises what that raises.
            tokens_per_s: See the class.
        """
        return cls(Checkpoint.read(resolve(model), str(model)), tokens_per_s)

    def step(self, batch: RaggedBatch) -> LazyTensor:
        """Give [num_sequences, dim] float32."""
        if self._tokens_per_s is not None:
            time.sleep(batch.num_tokens / self._tokens_per_s)  # on the lane's thread, as a device would take its time
        rows = self._hashed.rows(batch.token_ids.numpy(), batch.host_cu_seqlens)
        return LazyTensor(torch.from_numpy(rows), batch.order)

    def rest(self) -> None:
        """Nothing waits for an idle moment."""
