"""sentence-transformers: PyTorch and transformers, as most people run an embedding model.

It knows the library's own API. In float32 it is the reference of what is right.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

os.environ["HF_HUB_OFFLINE"] = "1"  # before the import: no look-ups while loading

import numpy as np
import torch
from adapter import Rows
from environments import versions_of
from sentence_transformers import CrossEncoder, SentenceTransformer
from serve import Flags, serve

_PACKAGES = ("sentence-transformers", "transformers", "tokenizers", "torch")
_ATTENTION = "sdpa"
# Of 4, 8, 16 and 32: for texts of 5–60 and of 60–250 words within some per cent of the best, which others are for one.
_BATCH = 8


class SentenceTransformers:
    """Both models, on the CPU."""

    versions: Mapping[str, str]
    settings: Mapping[str, str]

    def __init__(self, flags: Flags) -> None:
        kwargs = {"dtype": getattr(torch, flags.dtype), "attn_implementation": _ATTENTION}
        self._embedder = SentenceTransformer(str(flags.embedder), device="cpu", model_kwargs=kwargs)
        self._scorer = CrossEncoder(
            str(flags.scorer), device="cpu", model_kwargs=kwargs, activation_fn=torch.nn.Identity()
        )
        self.versions = versions_of(_PACKAGES)
        self.settings = {
            "weights and arithmetic": flags.dtype,
            "attention": _ATTENTION,
            "batch": f"sorted by length (its own way), {_BATCH} at most",
            "threads": str(torch.get_num_threads()),
        }

    @classmethod
    @contextmanager
    def open(cls, flags: Flags) -> Iterator["SentenceTransformers"]:
        """Load both models."""
        torch.set_num_threads(flags.threads)
        yield cls(flags)

    def embed(self, texts: Sequence[str]) -> Rows:
        """[n, dim], normalised, in order."""
        return np.asarray(
            self._embedder.encode(list(texts), batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False),
            np.float32,
        )

    def score(self, query: str, documents: Sequence[str]) -> Rows:
        """[n] raw logits, in order."""
        pairs = [(query, document) for document in documents]
        return np.asarray(self._scorer.predict(pairs, batch_size=_BATCH, show_progress_bar=False), np.float32)


if __name__ == "__main__":
    serve(SentenceTransformers.open)
