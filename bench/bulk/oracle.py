"""What vector a text must have, made anew from the text: by the tokenizer and the stand-in's hash.

It knows no sink and no fleet, so that what came through both can be held against it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from headrace_engine import Checkpoint, OutputOptions, finish
from headrace_engine.output import Dtype
from headrace_engine.resolve import resolve
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bulk.hashed import Hashed


class Oracle:
    """Of one model, for texts that need not be cut."""

    def __init__(self, model: str | Path, *, dim: int | None = None, dtype: Dtype = "f32") -> None:
        checkpoint = Checkpoint.read(resolve(model), str(model))
        self._tokenizer = Tokenizer.from_str(checkpoint.tokenizer_json.decode())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._max_length = checkpoint.max_length
        self._hashed = Hashed(checkpoint.dim)
        self._options = OutputOptions(dim=dim, dtype=dtype, normalize=checkpoint.normalize)

    def vectors(self, texts: Sequence[str]) -> NDArray[Any]:
        """[n, elements] as a sink must have them.

        Raises:
            ValueError: A text is longer than the model takes: how it is cut is not known here.
        """
        encodings = self._tokenizer.encode_batch_fast(list(texts))
        lengths = [len(encoding) for encoding in encodings]
        if max(lengths, default=0) > self._max_length:
            message = f"a text of {max(lengths)} tokens is longer than the model's {self._max_length}"
            raise ValueError(message)
        ids = np.fromiter((number for encoding in encodings for number in encoding.ids), np.int64, sum(lengths))
        rows, good = finish(self._hashed.rows(ids, np.concatenate(([0], np.cumsum(lengths)))), self._options)
        if not good.all():
            message = "a hash has no direction: this is a bug"
            raise ValueError(message)
        return rows
