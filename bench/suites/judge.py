"""Whether rows are right: how far they are from those of the reference.

It knows vectors and scores as arrays. It does not know who made them.
"""

import numpy as np
import numpy.typing as npt

# The bound of the article: cosine similarity may diverge by 0.1 % from the reference's.
BOUND = 1e-3

_LEAST = float(np.finfo(np.float64).tiny)

Rows = npt.NDArray[np.float32]


class WrongShape(ValueError):
    """Rows that cannot be compared: not as many, not as wide, or not finite."""


def divergence(rows: Rows, expected: Rows) -> float:
    """Half the squared distance to what is right, as a part of its squared length.

    For vectors of length one that is exactly 1 − cosine; and rows of another length are off, too. It is that of the
    farthest row of vectors [n, dim], or of all scores [n] as one vector around their mean, so that a contender which
    gives all documents the same is far off.

    Raises:
        WrongShape: The shapes differ, or a number is not finite.
    """
    if rows.shape != expected.shape:
        raise WrongShape(f"it gave rows of shape {rows.shape} where {expected.shape} are right")
    if not np.isfinite(rows).all():
        raise WrongShape("it gave numbers that are not finite")
    ours, theirs = rows.astype(np.float64), expected.astype(np.float64)
    if ours.ndim == 1:
        ours, theirs = (ours - theirs.mean())[None], (theirs - theirs.mean())[None]
    distances = np.square(ours - theirs).sum(axis=1) / np.maximum(np.square(theirs).sum(axis=1), _LEAST)
    return float(distances.max()) / 2
