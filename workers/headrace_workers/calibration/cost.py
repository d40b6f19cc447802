"""What a step costs: t = a + b·tokens + c·Σlen², fitted to measured batches.

Knows the law and how well it holds. Does not know where the batches come from, nor what is decided by it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

# Rounds of reweighting: each halves the pull of an outlier, or more.
_ROUNDS = 20
# Errors of up to so many times the median one count in full (Huber, doi:10.1214/aoms/1177703732).
_FULL_WEIGHT = 2.0
_EXACT = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One batch, measured.

    Attributes:
        kind: the ladder that it stands on.
        num_sequences: how many there are in it.
        num_tokens: of all of them.
        num_squares: Σlen².
        longest: tokens of the longest one.
        ms: the median of its times.
        spread: how far its times lie apart: half of them within so much of the median, as a share of it.
        num_times: how many there are; the spread of a single one says nothing.
    """

    kind: str
    num_sequences: int
    num_tokens: int
    num_squares: int
    longest: int
    ms: float
    spread: float = 0.0
    num_times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The law of one model on one device.

    Attributes:
        a_ms: what every step costs.
        b_ms: for each token.
        c_ms: for each pair of tokens that share a sequence.
        median_error: how far the law is off, as a share of the measured time: half of the points are nearer.
        worst_error: the farthest.
    """

    a_ms: float
    b_ms: float
    c_ms: float
    median_error: float = 0.0
    worst_error: float = 0.0

    def step_ms(self, tokens: float, squares: float) -> float:
        """How long a step takes.

        Args:
            tokens: of all its sequences.
            squares: Σlen².
        """
        return self.a_ms + self.b_ms * tokens + self.c_ms * squares

    def full_step_ms(self, tokens: float, length: int) -> float:
        """How long a step takes that is filled with sequences of one length; none with shorter ones takes longer."""
        return self.step_ms(tokens, tokens * length)


def fit(points: Sequence[Point]) -> Cost:
    """Fit the law: no part of it negative, relative errors least, and outliers of little weight.

    Raises:
        ValueError: There are no points, or one took no time.
    """
    if not points or min(point.ms for point in points) <= 0:
        raise ValueError(f"{len(points)} points cannot be fitted: measure at least one, each of more than 0 ms")
    times = np.array([point.ms for point in points])
    parts = np.array([(1.0, point.num_tokens, point.num_squares) for point in points]) / times[:, None]
    weights = np.ones(len(points))
    law = _least_squares(parts, weights)
    for _ in range(_ROUNDS):
        errors = np.abs(parts @ law - 1)
        limit = _FULL_WEIGHT * max(float(np.median(errors)), _EXACT)
        weights = limit / np.maximum(errors, limit)
        law = _least_squares(parts, weights)
    errors = np.abs(parts @ law - 1)
    a, b, c = (float(part) for part in law)
    return Cost(a_ms=a, b_ms=b, c_ms=c, median_error=float(np.median(errors)), worst_error=float(errors.max()))


def _least_squares(parts: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """[3], none negative, that bring parts @ law nearest to 1; parts is [N, 3].

    With three parts there are seven ways to leave some out, so the best of those that have no negative one is found by
    trying them all.
    """
    root = np.sqrt(weights)
    scale = np.maximum(np.abs(parts).max(axis=0), 1e-300)  # squares of lengths are large: bring all to one size
    scaled = parts / scale * root[:, None]
    best: NDArray[np.float64] = np.zeros(3)
    least = math.inf
    for size in (1, 2, 3):
        for kept in map(list, combinations(range(3), size)):
            found = np.zeros(3)
            found[kept] = np.linalg.lstsq(scaled[:, kept], root, rcond=None)[0]
            error = float(np.square(scaled @ found - root).sum())
            if found.min() >= 0 and error < least:
                best, least = found, error
    result: NDArray[np.float64] = best / scale
    return result
