"""Vectors that are hashes of token ids: cheap to make, the same in any batch, and other ones for other texts.

Pure. The stand-in engine answers with them, and the checker makes them again.
"""

import numpy as np
from numpy.typing import NDArray

_TOKEN, _POSITION = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SEED = 20_261_130
_HALF = np.float32(2**23)


class Hashed:
    """Makes rows of one number of dimensions.

    Attributes:
        dim: Of a row.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        # Odd, so that no two hashes become one.
        self._factors = np.random.default_rng(_SEED).integers(0, 2**63, dim, np.uint64) * np.uint64(2) + np.uint64(1)

    def rows(self, token_ids: NDArray[np.integer], cu_seqlens: NDArray[np.integer]) -> NDArray[np.float32]:
        """[n, dim] float32 between -1 and 1, of [tokens] ids and [n + 1] bounds; no sequence is empty."""
        starts = cu_seqlens[:-1].astype(np.int64)
        positions = np.arange(len(token_ids)) - np.repeat(starts, np.diff(cu_seqlens))
        mixed = (token_ids.astype(np.uint64) + np.uint64(1)) * _TOKEN
        mixed ^= mixed >> np.uint64(29)
        mixed *= positions.astype(np.uint64) * np.uint64(2) * _POSITION + np.uint64(1)
        mixed ^= mixed >> np.uint64(32)
        sums = np.add.reduceat(mixed, starts)
        # 24 high bits of each product: all that a float32 holds.
        bits = (sums[:, None] * self._factors) >> np.uint64(40)
        rows: NDArray[np.float32] = bits.astype(np.float32) / _HALF - np.float32(1)
        return rows
