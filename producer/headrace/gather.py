"""Puts the replies of a call's chunks back together, in the order of the texts.

Knows rows, indices and per-item errors. Does not know how replies come.
"""

from collections.abc import Sequence

import numpy as np
from headrace_contracts import Dtype, ErrorCode, Reply
from headrace_contracts.messages import numpy_dtype, row_elements

from headrace.errors import ItemError, from_code
from headrace.result import CallUsage, Gathered


class Gathering:
    """The result of a call while its chunks come in."""

    def __init__(self, num_texts: int, dim: int, dtype: Dtype) -> None:
        self._dim = dim
        self._dtype: Dtype = dtype
        self._rows = np.zeros((num_texts, row_elements(dtype, dim)), numpy_dtype(dtype))
        self._errors: dict[int, ItemError] = {}
        self._usage = CallUsage()

    def fail(self, index: int, error: ItemError) -> None:
        """Text `index` has no row."""
        self._errors[index] = error

    def put(self, indices: Sequence[int], reply: Reply) -> None:
        """Take in the reply to the chunk that held the texts at `indices`.

        Raises:
            RequestFailed: it is not the reply to such a chunk.
        """
        if (len(reply.rows), reply.dim, reply.dtype) != (len(indices), self._dim, self._dtype):
            text = (
                f"asked for {len(indices)} rows of {self._dim} {self._dtype}, "
                f"worker {reply.worker} sent {len(reply.rows)} of {reply.dim} {reply.dtype}"
            )
            raise from_code(ErrorCode.INTERNAL, text)
        self._rows[np.asarray(indices, np.intp)] = reply.rows
        for item in reply.bad:
            self.fail(indices[item.index], ItemError(item.code, item.text))
        self._usage = self._usage.plus(reply.usage)

    def finish(
        self, truncated: tuple[int, ...], *, total_ms: float, tokenize_ms: float, request_id: str | None = None
    ) -> Gathered:
        """All chunks are in; the times are those of CallUsage."""
        if self._errors and self._rows.dtype.kind == "f":
            self._rows[list(self._errors)] = np.nan
        usage = self._usage.timed(total_ms=total_ms, tokenize_ms=tokenize_ms)
        return Gathered(rows=self._rows, usage=usage, truncated=truncated, errors=self._errors, request_id=request_id)
