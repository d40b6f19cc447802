"""What `score` returns: one number a document, and their order.

Knows ranking. Does not know how scores were fetched.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.result import Gathered, Result


@dataclass(frozen=True, slots=True)
class Ranked:
    """One place of a ranking.

    Attributes:
        index: of the document.
        score: of the document; the higher, the more relevant.
    """

    index: int
    score: float


class Scores(Result):
    """Scores in the order of the documents: [n] float32, or [] for a single document, which `float` takes.

    A NumPy array with four attributes more, for which the rules of Result hold.

    Attributes:
        usage: what the call cost.
        truncated: indices of documents that were cut.
        errors: why a document has no score, by index. Its score is NaN, so that it cannot be mistaken for one.
        ranking: documents that have a score, best first, at most `top_n`; equal scores in the order of the documents.
    """

    _sent = "documents"
    _missing = "score"

    ranking: tuple[Ranked, ...]

    def __array_finalize__(self, source: NDArray[Any] | None, /) -> None:
        super().__array_finalize__(source)
        self.ranking = ()

    @classmethod
    def of(cls, gathered: Gathered, top_n: int | None = None) -> "Scores":
        """Wrap the rows [n, 1] of a call without copying them."""
        scores = cls._wrap(gathered.rows[:, 0], gathered)
        scores.ranking = rank(gathered.rows[:, 0], top_n)
        return scores

    def single(self) -> "Scores":
        """The score of the only document, with the attributes of all."""
        score = self._wrap(self.reshape(()), self)
        score.ranking = self.ranking
        return score


def rank(scores: NDArray[np.float32], top_n: int | None = None) -> tuple[Ranked, ...]:
    """Order scores [n], best first, ties by index; NaN stands for no score and is left out.

    Args:
        scores: in the order of the documents.
        top_n: how many to keep; None keeps all.
    """
    known = np.flatnonzero(~np.isnan(scores))
    best = known[np.argsort(-scores[known], kind="stable")][:top_n]
    return tuple(Ranked(int(index), float(scores[index])) for index in best)
