"""What the calls of a client have in common in what they return: an array that also tells cost and failures.

Knows the three attributes. Does not know what the rows mean: embeddings.py and scores.py do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

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
        total_ms: from the call to its result, as the caller waited; with the wait for the connection, and on the first
            call that of a client, for the model to be read.
        tokenize_ms: of that, until all texts were token ids.
    """

    tokens: int = 0
    chunks: int = 0
    queue_ms: float = 0
    run_ms: float = 0
    total_ms: float = 0
    tokenize_ms: float = 0

    def plus(self, usage: Usage) -> "CallUsage":
        """This and one more chunk."""
        return CallUsage(
            tokens=self.tokens + usage.tokens,
            chunks=self.chunks + 1,
            queue_ms=max(self.queue_ms, usage.queue_ms),
            run_ms=max(self.run_ms, usage.run_ms),
        )

    def timed(self, *, total_ms: float, tokenize_ms: float) -> "CallUsage":
        """This, once all chunks are in."""
        return replace(self, total_ms=total_ms, tokenize_ms=tokenize_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathered:
    """All that came back for a call.

    Attributes:
        rows: [n, elements] in the order of the texts; NaN, or zero where the dtype has no NaN, where there is an error.
        usage: what the call cost.
        truncated: indices of the texts that were cut.
        errors: why a text has no row, by index.
        request_id: what logs call the call.
    """

    rows: NDArray[Any]
    usage: CallUsage
    truncated: tuple[int, ...]
    errors: Mapping[int, ItemError]
    request_id: str | None = None


class Result(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with attributes more, which say what is so of all its rows in their order.

    Copies and pickles keep them. What NumPy computes from it, slices and orders are plain arrays, without them; another
    view or dtype of the same rows (reshape, astype) has them empty.

    Attributes:
        usage: what the call cost.
        truncated: indices of what was longer than the model takes and was cut.
        errors: why something has no result, by index.
        request_id: what logs and dead letters call the call.
    """

    usage: CallUsage
    truncated: tuple[int, ...]
    errors: Mapping[int, ItemError]
    request_id: str | None

    # How errors speak of what was sent and of what is missing.
    _sent: ClassVar[str]
    _missing: ClassVar[str]

    def __array_finalize__(self, source: NDArray[Any] | None, /) -> None:
        self.usage = CallUsage()
        self.truncated = ()
        self.errors = MappingProxyType({})
        self.request_id = None

    def __array_wrap__(self, array: NDArray[Any], context: object = None, return_scalar: bool = False) -> Any:
        # What was computed in place is this array still.
        return self if array is self else np.asarray(array)[()]

    def __array_function__(self, *call: Any) -> Any:
        # Some, such as np.sort, reorder what `copy` gives, whose attributes would speak of other rows.
        found = super().__array_function__(*call)
        return np.asarray(found) if isinstance(found, Result) else found

    def __getitem__(self, key: Any, /) -> Any:
        return np.asarray(self)[key]

    def argsort(self, *arguments: Any, **options: Any) -> NDArray[np.intp]:
        """As for any array."""
        return np.asarray(self).argsort(*arguments, **options)

    def copy(self, order: Literal["K", "A", "C", "F"] | None = "C") -> Self:
        """A copy of the array, with the attributes."""
        copied = super().copy(order)
        vars(copied).update(vars(self))
        return copied

    __copy__ = copy

    def __deepcopy__(self, memo: object, /) -> Self:
        return self.copy()  # the attributes are immutable

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled.
        return _restore, (type(self), np.asarray(self), {**vars(self), "errors": dict(self.errors)})

    @classmethod
    def _wrap(cls, array: NDArray[Any], told: "Gathered | Result") -> Self:
        """The array, not copied, with the attributes of another."""
        wrapped = array.view(cls)
        wrapped.usage = told.usage
        wrapped.truncated = told.truncated
        wrapped.errors = MappingProxyType(dict(sorted(told.errors.items())))
        wrapped.request_id = told.request_id
        return wrapped

    def raise_errors(self) -> None:
        """Raise if anything has no result.

        Raises:
            ItemsFailed: something has none.
        """
        if self.errors:
            error = ItemsFailed(self.errors, self._sent, self._missing)
            error.request_id = self.request_id
            raise error


def _restore(kind: type[Result], array: NDArray[Any], attributes: dict[str, Any]) -> Result:
    """Undo Result.__reduce__."""
    restored = array.view(kind)
    vars(restored).update(attributes)
    restored.errors = MappingProxyType(restored.errors)
    return restored
