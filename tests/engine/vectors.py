"""How far apart two sets of vectors are."""

from typing import Any

import numpy as np
import numpy.typing as npt


def cosines(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The cosine of each row of one with the same row of the other: [n, D], [n, D] → [n]."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    products = (left * right).sum(axis=1)
    cosines: npt.NDArray[np.float64] = products / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    return cosines


def random_ids(seed: int, length: int, vocab_size: int) -> npt.NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(0, vocab_size, length, dtype=np.uint32)
