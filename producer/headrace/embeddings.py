"""What `embed` returns: an array that also tells what it cost and what went wrong.

Knows how replies become one array. Does not know how they were fetched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from headrace_contracts import Usage
from numpy.typing import NDArray

from headrace.errors import ItemError, ItemsFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """What one call cost.

    Attributes:
        tokens: tokens that ran, special tokens included.
        chunks: messages that carried them.
        queue_ms: longest that a chunk waited for its step.
        run_ms: longest step that a chunk ran in.
    """

    tokens: int = 0
    chunks: int = 0
    queue_ms: float = 0
    run_ms: float = 0

    def plus(self, usage: Usage) -> "CallUsage":
        """This and one more chunk."""
        return CallUsage(
            tokens=self.tokens + usage.tokens,
            chunks=self.chunks + 1,
            queue_ms=max(self.queue_ms, usage.queue_ms),
            run_ms=max(self.run_ms, usage.run_ms),
        )


class Embeddings(np.ndarray[Any, np.dtype[Any]]):
    """Vectors in the order of the texts: [n, dim], or [dim] for a single text.

    An ordinary NumPy array with three attributes more; arrays computed from it have them empty.

    Attributes:
        usage: what the call cost.
        truncated: indices of texts that were longer than the model takes and were cut.
        errors: why a text has no vector, by index. Its row is NaN, so that it cannot be mistaken for one.
    """

    usage: CallUsage
    truncated: tuple[int, ...]
    errors: Mapping[int, ItemError]

    def __array_finalize__(self, source: NDArray[Any] | None, /) -> None:
        self.usage = CallUsage()
        self.truncated = ()
        self.errors = MappingProxyType({})

    @classmethod
    def of(
        cls,
        rows: NDArray[Any],
        *,
        usage: CallUsage,
        truncated: tuple[int, ...],
        errors: Mapping[int, ItemError],
    ) -> "Embeddings":
        """Wrap rows without copying them."""
        array = rows.view(cls)
        array.usage = usage
        array.truncated = truncated
        array.errors = MappingProxyType(dict(sorted(errors.items())))
        return array

    def raise_errors(self) -> None:
        """Raise if any text has no vector.

        Raises:
            ItemsFailed: some have none.
        """
        if self.errors:
            raise ItemsFailed(self.errors)

    def single(self) -> "Embeddings":
        """The vector of the only text, with the attributes of all."""
        return Embeddings.of(self[0], usage=self.usage, truncated=self.truncated, errors=self.errors)
