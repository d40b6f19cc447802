"""From texts to token ids, by the tokenizer.json that the fleet published.

Knows the Rust tokenizer. The file's own truncation and padding are switched off and the model's limit applied: many a
file truncates at half of what the model takes. Does not know chunks.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from headrace_contracts import TokenIds
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

# Below this many characters a hop to a thread costs more than the work.
_INLINE_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Tokenized:
    """Texts as token ids.

    Attributes:
        sequences: one array of ids a text, cut to the model's limit.
        full_lengths: [n] tokens of each text before the cut.
    """

    sequences: list[TokenIds]
    full_lengths: NDArray[np.int64]

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """[n] whether the text was cut."""
        return self.full_lengths > np.fromiter(map(len, self.sequences), np.int64, len(self.sequences))


class TextTokenizer:
    """One model's tokenizer with the model's own length limit."""

    def __init__(self, tokenizer_json: str, max_length: int) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length)
        self._num_special = self._tokenizer.num_special_tokens_to_add(is_pair=False)

    async def __call__(self, texts: Sequence[str]) -> Tokenized:
        """Tokenise; long inputs in a thread, so that the event loop goes on."""
        if sum(map(len, texts)) <= _INLINE_CHARACTERS:
            return self.tokenize(texts)
        return await asyncio.to_thread(self.tokenize, texts)

    def tokenize(self, texts: Sequence[str]) -> Tokenized:
        """Tokenise here and now."""
        encodings = self._tokenizer.encode_batch_fast(list(texts))
        lengths = (self._full_length(encoding) for encoding in encodings)
        return Tokenized(
            [np.array(encoding.ids, np.uint32) for encoding in encodings],
            np.fromiter(lengths, np.int64, len(encodings)),
        )

    def _full_length(self, encoding: Encoding) -> int:
        # What was cut off comes in pieces, each with the special tokens around it again.
        return len(encoding.ids) + sum(len(piece.ids) - self._num_special for piece in encoding.overflowing)
