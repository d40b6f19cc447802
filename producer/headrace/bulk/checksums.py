"""Checksums by which a window that was written can be compared with what a sink holds.

Pure. Does not know files.
"""

import zlib
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from headrace.bulk.rows import Id


def of_ids(ids: Iterable[Id]) -> str:
    """Of a set of ids, in whatever order; an int and its digits as a string differ."""
    digest = blake2b(digest_size=16)
    for one in sorted(_written(each) for each in ids):
        digest.update(len(one).to_bytes(8, "little"))
        digest.update(one)
    return digest.hexdigest()


def of_vectors(vectors: NDArray[np.generic]) -> str:
    """Of vectors [n, elements], bit for bit and in this order."""
    return f"{zlib.crc32(np.ascontiguousarray(vectors).data.cast('B')):08x}" if vectors.size else "00000000"


def _written(one: Id) -> bytes:
    return f"{'i' if isinstance(one, int) else 's'}{one}".encode("utf-8", "surrogatepass")
