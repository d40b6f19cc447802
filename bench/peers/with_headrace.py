"""Headrace in process: the client's tokenizers and the engine, without a message between them.

It knows how the two are put together in one program. What a fleet does besides is with_headrace_nats.py's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from adapter import Rows
from headrace.chunking import split
from headrace.published import Model
from headrace.tokens import Tokenized
from headrace_engine import Engine, EngineConfig, OutputOptions, finish, pack
from headrace_workers.config import WorkerConfig
from headrace_workers.spec import describe
from serve import Flags, serve

# As a worker takes them until it is calibrated.
_STEP_TOKENS, _MAX_PAYLOAD = 2048, 2**20


class InProcess:
    """Both models, loaded, each with its tokenizers."""

    def __init__(self, flags: Flags) -> None:
        """Load them."""
        config = EngineConfig(dtype=flags.dtype, threads=flags.threads)
        self._embedder = Engine.load(flags.embedder, config)
        self._scorer = Engine.load(flags.scorer, config)
        self._texts, self._pairs = _tokenizers(self._embedder).texts, _tokenizers(self._scorer).pairs
        self.versions: Mapping[str, str] = {"torch": torch.__version__}
        self.settings: Mapping[str, str] = {
            "batch": f"ragged, in steps of up to {_STEP_TOKENS} tokens",
            "threads": str(torch.get_num_threads()),
        }

    def embed(self, texts: Sequence[str]) -> Rows:
        """As Adapter.embed."""
        rows, _ = finish(_run(self._embedder, self._texts.tokenize(texts)), OutputOptions())
        return np.asarray(rows, np.float32)

    def score(self, query: str, documents: Sequence[str]) -> Rows:
        """As Adapter.score."""
        return _run(self._scorer, self._pairs.tokenize(query, documents))[:, 0]


def _tokenizers(engine: Engine) -> Model:
    checkpoint = engine.checkpoint
    spec = describe(checkpoint, WorkerConfig(), compute_dtype=str(engine.dtype), max_payload=_MAX_PAYLOAD)
    return Model.of(spec, checkpoint.tokenizer_json)


def _run(engine: Engine, tokenized: Tokenized) -> Rows:
    """[n, dim], in order: as many steps as the tokens need."""
    sequences, segments = tokenized.sequences, tokenized.segment_ids
    steps = split([len(sequence) for sequence in sequences], max_tokens=_STEP_TOKENS, max_items=len(sequences))
    return np.concatenate(
        [
            engine.step(
                pack(
                    sequences[step.start : step.stop],
                    None if segments is None else segments[step.start : step.stop],
                )
            ).numpy()
            for step in steps
        ]
    )


@contextmanager
def opened(flags: Flags) -> Iterator[InProcess]:
    """The adapter; there is nothing to close."""
    yield InProcess(flags)


if __name__ == "__main__":
    serve(opened)
