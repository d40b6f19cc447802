"""The ways to run a batch: in float32, eagerly, padded eagerly, replayed.

It knows how to get rows of each. It does not compare them.
"""

import numpy as np
import torch
from headrace_engine.attention.sdpa import SdpaBackend
from headrace_engine.batch import RaggedBatch
from headrace_engine.buckets import pad
from headrace_engine.config import EngineConfig
from headrace_engine.graphs import GraphConfig
from headrace_engine.model import Model

from gpu.backend import Backend
from gpu.batches import moved
from gpu.likeness import Rows
from gpu.model import Built

# The second hit captures, and replays at once.
CONFIG = EngineConfig(graphs=GraphConfig(defer_s=0))


def reference_rows(model: Model, batch: RaggedBatch, device: torch.device) -> Rows:
    """Run a batch in the plainest way that there is: [N, dim] in the caller's order."""
    rows = model(moved(batch, device), SdpaBackend().plan(batch)).cpu().numpy()
    in_order = np.empty_like(rows)
    in_order[batch.order] = rows
    return in_order


class Ways:
    """The runners of one model by one backend.

    Attributes:
        graphing: The one with graphs; None where nothing can be captured.
    """

    def __init__(self, backend: Backend, built: Built, config: EngineConfig = CONFIG) -> None:
        """Make them."""
        self.runner = backend.eager(built)
        self.graphing = backend.graphing(built, config)

    def eager(self, batch: RaggedBatch) -> Rows:
        """[N, dim] launch by launch."""
        return self.runner.run(batch).numpy()

    def eager_padded(self, batch: RaggedBatch) -> Rows:
        """[N, dim] launch by launch, padded as for a graph, without the rows of dummies."""
        key = None if self.graphing is None else self.graphing.buckets.key(batch)
        return self.eager(batch if key is None else pad(batch, key))[: batch.num_sequences]

    def replayed(self, batch: RaggedBatch) -> Rows | None:
        """[N, dim] out of a graph; None where the batch ran eagerly after all, as at a first hit."""
        if self.graphing is None:
            return None
        before = self.graphing.graphs.counters.replays
        rows = self.graphing.runner.run(batch).numpy()
        return rows if self.graphing.graphs.counters.replays > before else None
