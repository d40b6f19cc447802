"""ModelSpecs for tests that need no fleet."""

from dataclasses import replace
from typing import Any

from headrace_contracts import ModelSpec

_SCORER = ModelSpec(
    name="scorer",
    source="here",
    tasks=("score",),
    dim=1,
    dtypes=("f32",),
    default_dtype="f32",
    compute_dtype="float32",
    max_length=32,
    max_length_source="here",
    pooling="cls",
    include_prompt=True,
    normalize=False,
    prompts={},
    default_prompt=None,
    pair_template=None,
    vocab_size=30522,
    num_segments=2,
    fingerprint="0123abcd",
    tokenizer="0123abcd",
    max_chunk_tokens=1024,
    max_chunk_items=100,
)


def scorer(**changes: Any) -> ModelSpec:
    """A model that scores pairs."""
    return replace(_SCORER, **changes)
