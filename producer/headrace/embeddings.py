"""What `embed` returns: vectors.

Knows their shape. Does not know how they were fetched.
"""

from headrace.result import Gathered, Result


class Embeddings(Result):
    """Vectors in the order of the texts: [n, dim], or [dim] for a single text; `b1` vectors are ⌈dim / 8⌉ bytes.

    A NumPy array with three attributes more, for which the rules of Result hold.

    Attributes:
        usage: what the call cost.
        truncated: indices of texts that were longer than the model takes and were cut.
        errors: why a text has no vector, by index. Its row is NaN, so that it cannot be mistaken for one; a row of
            integers, which have no NaN, is zero.
    """

    _sent = "texts"
    _missing = "vector"

    @classmethod
    def of(cls, gathered: Gathered) -> "Embeddings":
        """Wrap the rows of a call without copying them."""
        return cls._wrap(gathered.rows, gathered)

    def single(self) -> "Embeddings":
        """The vector of the only text, with the attributes of all."""
        return self._wrap(self[0], self)
