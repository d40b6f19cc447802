"""From a chunk to its reply, as a worker would run it, but by hashing.

Knows chunks and replies. Does not know texts, nor what goes wrong.
"""

from collections.abc import Mapping
from zlib import crc32

import numpy as np
from headrace_contracts import Chunk, Reply, Rows, Usage

from headrace.testing.vectors import finish, overlap, row
from headrace.testing.words import Vocabulary

WORKER = "fake"
# What a step without delay is said to take.
_STEP_MS = 1.0


class FakeWorker:
    """The only worker of a fake fleet; it serves all models."""

    def __init__(self, dims: Mapping[str, int], vocabulary: Vocabulary) -> None:
        """Serve models.

        Args:
            dims: of the vectors of each.
            vocabulary: of all of them.
        """
        self._dims = dims
        self._vocabulary = vocabulary

    def run(self, chunk: Chunk, run_s: float) -> Reply:
        """Run a chunk, and say that it took so many seconds."""
        is_score, dim = chunk.task == "score", self._dims[chunk.model]
        return Reply(
            id=chunk.id,
            rows=self._scores(chunk) if is_score else self._vectors(chunk, dim),
            dim=1 if is_score else chunk.options.dim or dim,
            dtype=chunk.options.dtype,
            bad=(),
            usage=Usage(
                tokens=chunk.num_tokens,
                queue_ms=0,
                run_ms=_STEP_MS + run_s * 1000,
                batch_tokens=chunk.num_tokens,
            ),
            worker=WORKER,
        )

    def _scores(self, chunk: Chunk) -> Rows:
        raw = chunk.options.raw
        scores = [overlap(sequence, self._vocabulary, raw=raw) for sequence in chunk.sequences()]
        return np.array(scores, np.float32)[:, None]

    def _vectors(self, chunk: Chunk, dim: int) -> Rows:
        salt, skip = crc32(chunk.model.encode()), chunk.options.skip
        rows = [row(sequence[skip:], self._vocabulary, dim, salt) for sequence in chunk.sequences()]
        return finish(np.stack(rows), chunk.options)
