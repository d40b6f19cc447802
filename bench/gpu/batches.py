"""Which lengths and ids are run.

It knows which shapes are worth a check: at the edges of buckets and limits, and many between. Everything is drawn from
seeds and the same each time. It knows no model but for its limits.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.limits import Limits

from gpu.weights import poison_id

Lengths = tuple[int, ...]
_GRAPH_TOKENS = 4096  # the most that the engine captures a graph for unless told otherwise


def text(lengths: Lengths) -> str:
    """Name a batch: "5 × 512", or "6 × 1…512" where lengths differ."""
    shortest, longest = min(lengths), max(lengths)
    return f"{len(lengths)} × {longest if shortest == longest else f'{shortest}…{longest}'}"


def ladder(max_length: int) -> tuple[Lengths, ...]:
    """Batches from one token to the longest sequence: on buckets, one over them, of many tiny sequences, mixed."""
    piece = min(max_length, 512)
    mixed = tuple(np.random.default_rng(0).integers(1, piece, 11).tolist())
    rungs: tuple[Lengths, ...] = (
        (1,),
        (64,),
        (65,),
        (min(max_length, _GRAPH_TOKENS),),
        (max_length,),
        (piece,) * 5,
        (1, *(piece,) * 5),
        (1,) * 300,
        (3,) * 200,
        mixed,
    )
    return tuple(dict.fromkeys(rungs))


def shapes(num: int, max_length: int, max_sequences: int, seed: int) -> list[Lengths]:
    """Random ones: as many of few sequences as of many, and as many of short ones as of long ones."""
    random = np.random.default_rng(seed)

    def up_to(most: int) -> int:
        return int(np.exp(random.uniform(0, np.log(most + 1))))

    return [tuple(random.integers(1, up_to(max_length) + 1, up_to(max_sequences)).tolist()) for _ in range(num)]


def draw(lengths: Lengths, limits: Limits, seed: int) -> RaggedBatch:
    """A batch of random tokens, none of them the poisonous one; with segments and skips where the model has some."""
    random = np.random.default_rng(seed)
    sequences = _ids(random, lengths, poison_id(limits.vocab_size))
    skips = None if limits.include_prompt else random.integers(0, lengths).tolist()
    return pack(sequences, _segments(random, lengths, limits), skips)


def ids(lengths: Lengths, limits: Limits) -> list[npt.NDArray[np.uint32]]:
    """Random tokens, not packed yet."""
    return _ids(np.random.default_rng(0), lengths, poison_id(limits.vocab_size))


def poisoned(lengths: Lengths, limits: Limits, num_good: int = 0) -> RaggedBatch:
    """A batch of nothing but the poisonous token, after some good sequences of the same lengths."""
    bad = poison_id(limits.vocab_size)
    good = _ids(np.random.default_rng(0), lengths[:num_good], bad)
    return pack([*good, *(np.full(length, bad, np.uint32) for length in lengths[num_good:])])


def moved(batch: RaggedBatch, device: torch.device) -> RaggedBatch:
    """A batch on another device, copied in the plainest way."""
    there: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors(batch).items()}
    return replace(batch, **there)


def tensors(batch: RaggedBatch) -> dict[str, torch.Tensor]:
    """Its tensors, by the names of their fields."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def _ids(random: np.random.Generator, lengths: Lengths, bound: int) -> list[npt.NDArray[np.uint32]]:
    return [random.integers(0, bound, length).astype(np.uint32) for length in lengths]


def _segments(random: np.random.Generator, lengths: Lengths, limits: Limits) -> Sequence[npt.NDArray[np.uint8]] | None:
    if limits.num_segments == 1:
        return None
    return [random.integers(0, limits.num_segments, length).astype(np.uint8) for length in lengths]
