"""Parts of made-up vectors, for the tests of sinks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from headrace.bulk.card import Card
from headrace.bulk.rows import Id
from headrace.bulk.sink import Part, Sink
from headrace_contracts.messages import Dtype, numpy_dtype, row_elements
from numpy.typing import NDArray

CARD = Card(
    model="m",
    source="a/b",
    fingerprint="f" * 16,
    tokenizer="7" * 64,
    pooling="mean",
    prompt="query: ",
    dim=24,
    dtype="f32",
    normalize=True,
    max_length=256,
    compute_dtype="float32",
)


def card(dtype: Dtype = "f32", **changed: object) -> Card:
    return replace(CARD, dtype=dtype, **changed)  # type: ignore[arg-type]  # the fields' own types differ


def vectors(card: Card, num_rows: int, seed: int = 0) -> NDArray[np.generic]:
    """Any bits that are numbers, so that a value which was converted on its way shows."""
    numbers = np.random.default_rng(seed)
    shape, dtype = (num_rows, row_elements(card.dtype, card.dim)), numpy_dtype(card.dtype)
    if dtype.kind == "f":
        found = numbers.standard_normal(shape).astype(dtype)
        found[:1, :4] = [-0.0, 0.1, np.inf, 6e-8]  # the last is subnormal in float16
        return found
    return np.frombuffer(numbers.bytes(shape[0] * shape[1]), dtype).reshape(shape)


def part(
    ids: Sequence[Id], *, shard: int = 0, window: int = 0, of: Card = CARD, seed: int = 0, with_texts: bool = False
) -> Part:
    return Part(
        shard=shard,
        window=window,
        ids=ids,
        hashes=[f"{seed:>6}{index:>10}".encode() for index in range(len(ids))],
        vectors=vectors(of, len(ids), seed),
        fresh=np.ones(len(ids), np.bool_),
        texts=[f"text {seed} of {one}" for one in ids] if with_texts else None,
    )


def assert_holds(sink: Sink, *parts: Part) -> None:
    """All of these parts are there bit for bit, and nothing else."""
    assert sink.count() == sum(len(part.ids) for part in parts)
    for each in parts:
        found = sink.lookup(each.ids)
        assert found.keys() == set(each.ids)
        assert [found[one].hash for one in each.ids] == list(each.hashes)
        for one, vector in zip(each.ids, each.vectors, strict=True):
            assert found[one].vector.dtype == each.vectors.dtype
            assert found[one].vector.tobytes() == vector.tobytes()
