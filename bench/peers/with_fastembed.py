"""fastembed: ONNX Runtime behind an API that takes texts.

It knows the library's own classes, into which a model of one's own is put by a call; sessions, tokenising, batches and
pooling are the library's.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before the import: no look-ups while loading

import numpy as np
from adapter import Rows
from crews import size_of_crew
from environments import versions_of
from exported import fused
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from fastembed.rerank.cross_encoder import TextCrossEncoder
from serve import Flags, serve

_PACKAGES = ("fastembed", "onnxruntime", "tokenizers", "numpy")
_EMBEDDER, _SCORER = "local/embedder", "local/scorer"
_NOWHERE = ModelSource(hf="local/none")  # it asks for one, and does not look there
# As of sentence-transformers. The library's own default of 256 pads all texts of a call to the longest.
_BATCH = 8


class FastEmbed:
    """Both models.

    Attributes:
        crew: Sessions that share the threads, for callers that come at the same time.

    Raises:
        ValueError: The dtype is not float32.
    """

    versions: Mapping[str, str]
    settings: Mapping[str, str]
    crew: Sequence[Callable[[Sequence[str]], Rows]]

    def __init__(self, flags: Flags) -> None:
        if flags.dtype != "float32":
            raise ValueError(f"dtype {flags.dtype}: fastembed computes in float32 on a CPU; ask for that")
        embedder = fused("tokens", flags.embedder, flags.work)
        scorer = fused("scores", flags.scorer, flags.work)
        self._embedder = _load(embedder, flags.threads)
        self._scorer = TextCrossEncoder(_SCORER, threads=flags.threads, specific_model_path=str(scorer))
        members = size_of_crew(flags.threads)
        self.crew = [partial(_embed, _load(embedder, flags.threads // members)) for _ in range(members)]
        self.versions = versions_of(_PACKAGES)
        self.settings = {
            "precision": flags.dtype,
            "graph": f"onnxruntime.transformers' for BERT, with what is faster here: {_counts(embedder)}; not with "
            "SkipLayerNormalization and EmbedLayerNormalization; pooling and normalising are fastembed's",
            "batch": f"sorted by length before, which it does not do by itself; {_BATCH} at most",
            "threads": f"{flags.threads}; they spin for some time after a call, as is the default",
            "several callers": f"{members} sessions with intra-op threads = {flags.threads // members}",
        }

    @classmethod
    @contextmanager
    def open(cls, flags: Flags) -> Iterator["FastEmbed"]:
        """Load both models, after an export where there is none of these weights."""
        TextEmbedding.add_custom_model(
            _EMBEDDER, PoolingType.MEAN, normalization=True, sources=_NOWHERE, dim=_dim(flags), model_file="model.onnx"
        )
        TextCrossEncoder.add_custom_model(_SCORER, sources=_NOWHERE, model_file="model.onnx")
        yield cls(flags)

    def embed(self, texts: Sequence[str]) -> Rows:
        """[n, dim], normalised, in order."""
        return _embed(self._embedder, texts)

    def score(self, query: str, documents: Sequence[str]) -> Rows:
        """[n] raw logits, in order."""
        order = np.argsort([len(document) for document in documents], kind="stable")
        scores = list(self._scorer.rerank(query, [documents[place] for place in order], batch_size=_BATCH))
        return np.asarray(scores, np.float32)[np.argsort(order)]


def _load(directory: Path, threads: int) -> TextEmbedding:
    return TextEmbedding(_EMBEDDER, threads=threads, specific_model_path=str(directory))


def _embed(model: TextEmbedding, texts: Sequence[str]) -> Rows:
    order = np.argsort([len(text) for text in texts], kind="stable")
    rows = list(model.embed([texts[place] for place in order], batch_size=_BATCH))
    return np.asarray(rows, np.float32)[np.argsort(order)]


def _counts(directory: Path) -> str:
    """Which nodes came of a fusion, and how many."""
    counts: dict[str, int] = json.loads((directory / "fused.json").read_text("utf-8"))
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _dim(flags: Flags) -> int:
    hidden_size: int = json.loads((flags.embedder / "config.json").read_text("utf-8"))["hidden_size"]
    return hidden_size


if __name__ == "__main__":
    serve(FastEmbed.open)
