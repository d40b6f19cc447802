"""Records of jobs for tests."""

from typing import Any

from headrace.bulk.card import Card
from headrace.bulk.cut import Cut
from headrace.bulk.jobs.record import JobRecord

CARD = Card(
    model="minilm",
    source="sentence-transformers/all-MiniLM-L6-v2",
    fingerprint="0123456789abcdef",
    tokenizer="ab" * 32,
    pooling="mean",
    prompt="",
    dim=384,
    dtype="f32",
    normalize=True,
    max_length=256,
    compute_dtype="float32",
)


def job(**changes: Any) -> JobRecord:
    """A job of three shards."""
    fields: dict[str, Any] = {
        "name": "nightly",
        "source": "articles/*.parquet",
        "sink": "parquet:vectors",
        "card": CARD,
        "cut": Cut(),
        "corpus": "c0ffee",
        "num_shards": 3,
        "num_rows": 1000,
        "options": {"column": "text", "id_column": None, "dedupe": True, "max_failed": 100},
        "state": "running",
        "reason": None,
        "created_ms": 1_800_000_000_000,
        "changed_ms": 1_800_000_000_000,
    }
    return JobRecord(**{**fields, **changes})
