"""The chunks of a window: its texts by length, so that chunks are full and what runs together is alike.

Pure. Knows token ids and the limits of a chunk. The same texts give the same chunks with the same ids, on every try.
Does not know how a chunk is sent (publisher.py) or answered (assembly.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from headrace_contracts import Chunk, ModelSpec, Options, TokenIds, encode_chunk
from numpy.typing import NDArray

from headrace.chunking import split

# Numbers of chunks of a window, halves of failed ones included, are below this: a seq says which window.
_SEQS_A_WINDOW = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class BulkChunk:
    """One chunk of a window.

    Attributes:
        id: its id, which begins with the number of the window.
        texts: [n] the texts that it holds, as places in Sifted.texts.
        num_tokens: of all of them.
        body: as it is published.
    """

    id: str
    texts: NDArray[np.int64]
    num_tokens: int
    body: bytes


class Chunker:
    """Makes the chunks of a shard's windows."""

    def __init__(self, place: str, job: str, spec: ModelSpec, options: Options) -> None:
        """Take what all chunks of a shard have in common.

        Args:
            place: names the shard of this very job: results of an earlier job of its name, which the broker may still
                have, must not be taken for this one's.
            job: its name.
            spec: of the model.
            options: what is done to the rows.
        """
        self._place = place
        self._job = job
        self._spec = spec
        self._options = options

    def chunks(
        self, window: int, sequences: Sequence[TokenIds], texts: NDArray[np.int64], skip: int
    ) -> list[BulkChunk]:
        """The chunks of some texts of a window.

        Args:
            window: its number.
            sequences: token ids of all its texts.
            texts: [n] the places of those that are wanted.
            skip: tokens of the prompt that are left out of the pooling.
        """
        lengths = np.array([len(sequences[place]) for place in texts], np.int64)
        order = np.argsort(-lengths, kind="stable")
        texts, lengths = texts[order], lengths[order]
        limits = {"max_tokens": self._spec.max_chunk_tokens, "max_items": self._spec.max_chunk_items}
        runs = split(lengths.tolist(), **limits)
        return [self.chunk(window, sequences, texts[run.start : run.stop], skip) for run in runs]

    def chunk(self, window: int, sequences: Sequence[TokenIds], texts: NDArray[np.int64], skip: int) -> BulkChunk:
        """One chunk of these texts, in this order."""
        own = [sequences[place] for place in texts]
        token_ids = np.concatenate(own)
        chunk_id = f"{window}-{self._digest(window, texts, token_ids)}"
        options = Options(
            dim=self._options.dim, dtype=self._options.dtype, normalize=self._options.normalize, skip=skip
        )
        chunk = Chunk(
            id=chunk_id,
            task="embed",
            model=self._spec.name,
            fingerprint=self._spec.fingerprint,
            lengths=np.fromiter(map(len, own), np.uint32, len(own)),
            token_ids=token_ids,
            options=options,
            job=self._job,
            seq=window * _SEQS_A_WINDOW + int(texts[0]),
        )
        return BulkChunk(chunk_id, texts, len(token_ids), encode_chunk(chunk))

    def _digest(self, window: int, texts: NDArray[np.int64], token_ids: TokenIds) -> str:
        """Different for all chunks of all jobs; the same for this one on every try."""
        place = f"{self._place}.{window}.".encode()
        return blake2b(place + texts.tobytes() + token_ids.tobytes(), digest_size=12).hexdigest()


def window_of(chunk_id: str) -> int | None:
    """The number of the window that a chunk's id says; None if it is no id of a bulk job's chunk."""
    number, dash, _ = chunk_id.partition("-")
    return int(number) if dash and number.isascii() and number.isdecimal() else None
