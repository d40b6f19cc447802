"""How far rows are from those they should be, and what is far.

It knows vectors and scores. It does not know what made them.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpu.complaints import in_a_line
from gpu.finding import Check, Where

Rows = npt.NDArray[np.float32]
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class Bound:
    """The farthest that is near.

    Attributes:
        vectors: Of rows of several numbers, as 1 - cosine.
        scores: Of rows of one number, as the difference of logits.
    """

    vectors: float
    scores: float

    def of(self, dim: int) -> float:
        """That of rows so wide."""
        return self.scores if dim == 1 else self.vectors


# bfloat16 against float32: the engine's promise. On a CPU these models come to 2e-4, and their logits to 0.015.
REFERENCE = Bound(vectors=1e-3, scores=0.06)
# The same numbers through the same kernels; a mean over tokens is summed by atomic additions, in any order.
SAME = Bound(vectors=1e-5, scores=0.005)
# The same, where keys are split in one of the two runs and not in the other: FlashInfer's fa2 splits them in graphs.
SPLIT = Bound(vectors=2.5e-4, scores=0.03)


def distance(found: Rows, expected: Rows) -> float:
    """The worst row's: 1 - cosine, or the difference where a row is one number; infinite where it is none at all."""
    if found.shape != expected.shape:
        return math.inf
    one, other = found.astype(np.float64), expected.astype(np.float64)
    if found.shape[1] == 1:
        return _worst(np.abs(one - other))
    with np.errstate(all="ignore"):
        # Of unit rows, so that nearly equal ones do not drown in the rounding of a product near 1.
        gaps = _unit(one) - _unit(other)
        return _worst((gaps * gaps).sum(axis=1) / 2)


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    unit: npt.NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _worst(distances: npt.NDArray[np.float64]) -> float:
    worst = float(distances.max())
    return worst if math.isfinite(worst) else math.inf


@dataclass(slots=True)
class Tally:
    """Many comparisons of one kind, which make one check.

    Attributes:
        what: What should be so.
        bound: What is near.
    """

    what: str
    bound: Bound
    _num: int = 0
    _num_equal: int = 0
    _worst: tuple[float, str] = (-1.0, "")
    _bad: list[str] = field(default_factory=list)

    def compare(self, name: str, found: Rows, expected: Rows) -> None:
        """Count one in."""
        far = distance(found, expected)
        self._num += 1
        self._num_equal += np.array_equal(found, expected)
        self._worst = max(self._worst, (far, name))
        if not far <= self.bound.of(expected.shape[-1]):
            self._bad.append(f"{name} by {far:.1e}")

    def fail(self, name: str, error: Exception) -> None:
        """Count one in that came to nothing."""
        self._num += 1
        self._bad.append(f"{name}: {in_a_line(error)}")

    def check(self, where: Where, *notes: str) -> Check:
        """Sum up; the notes are said at the end."""
        end = "".join(f"; {note}" for note in notes)
        if self._bad:
            more = f" and {len(self._bad) - _MAX_NAMED} more" if len(self._bad) > _MAX_NAMED else ""
            named = ", ".join(self._bad[:_MAX_NAMED])
            detail = f"{len(self._bad)} of {self._num}: {named}{more}{end}"
            return Check(where, self.what, "failed", detail, self._far())
        if not self._num:
            return Check(where, self.what, "skipped", "; ".join(notes) or "there was nothing to compare")
        far, name = self._worst
        detail = f"{self._num} batches, the farthest {far:.1e} ({name}), {self._num_equal} equal to the bit{end}"
        return Check(where, self.what, "passed", detail, far)

    def _far(self) -> float | None:
        far, _ = self._worst
        return far if 0 <= far < math.inf else None  # JSON has no infinity
