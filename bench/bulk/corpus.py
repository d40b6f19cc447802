"""A corpus of short documents out of a seed: words a tokenizer knows, as frequent as words are, in Parquet or JSONL.

It knows documents, ids and rows that are no good. It knows no fleet. The same numbers give the same files.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

# Words are about as frequent as 1 / (rank + 2.7), which is Zipf's law as Mandelbrot mended it.
_RANKS_BEFORE = 2.7
_FIRST_WORD, _NUM_WORDS = 1996, 12_000  # of BERT's vocabulary, by frequency; before them are single characters
_SHORTEST, _LONGEST = 5, 40
_BLOCK = 65_536
_INVALID = b"\xff\xfe no text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What to write.

    Attributes:
        documents: How many rows, the bad ones included.
        shards: Files.
        seed: Of all that is random.
        copies: Share of rows whose text is that of another row of the same block.
        bad: Share of rows without a text, at least one if it is not 0: half of them null, half of them no UTF-8.
        form: Of the files.
    """

    documents: int
    shards: int = 4
    seed: int = 0
    copies: float = 0.03
    bad: float = 0.0
    form: Literal["parquet", "jsonl"] = "parquet"

    def write(self, folder: Path, vocabulary: Path) -> None:
        """Write the files into a folder that is not there yet: `id`, an int64, and `text`.

        Args:
            folder: For them.
            vocabulary: A tokenizer.json of BERT's, for its words.
        """
        folder.mkdir(parents=True)
        words = _words(vocabulary)
        for shard in range(self.shards):
            first, end = (self.documents * each // self.shards for each in (shard, shard + 1))
            blocks = self._blocks(words, shard, first, end)
            file = folder / f"documents-{shard:03d}.{self.form}"
            if self.form == "parquet":
                _write_parquet(file, blocks)
            else:
                _write_jsonl(file, blocks)

    def _blocks(
        self, words: pa.Array, shard: int, first: int, end: int
    ) -> Iterator[tuple[NDArray[np.int64], pa.Array]]:
        """Ids and texts (binary) of a shard."""
        random = np.random.default_rng((self.seed, shard))
        weights = 1 / (np.arange(len(words)) + _RANKS_BEFORE)
        bounds = np.cumsum(weights) / weights.sum()
        for start in range(first, end, _BLOCK):
            num = min(_BLOCK, end - start)
            texts = self._with_copies(_texts(words, bounds, num, random), random)
            yield np.arange(start, start + num), self._with_bad(texts, random, is_first=start == 0)

    def _with_copies(self, texts: pa.Array, random: np.random.Generator) -> pa.Array:
        which = np.arange(len(texts))
        copied = random.random(len(texts)) < self.copies
        which[copied] = random.integers(0, len(texts), copied.sum())
        return texts.take(pa.array(which))

    def _with_bad(self, texts: pa.Array, random: np.random.Generator, *, is_first: bool) -> pa.Array:
        draws = random.random(len(texts))
        if self.bad and is_first:
            draws[:2] = 0, self.bad / 2  # one of each kind, however few rows there are
        binary = pc.if_else(pa.array(draws < self.bad / 2), pa.scalar(None, pa.binary()), texts.cast(pa.binary()))
        is_invalid = (draws >= self.bad / 2) & (draws < self.bad)
        return pc.if_else(pa.array(is_invalid), pa.scalar(_INVALID, pa.binary()), binary)


def _words(vocabulary: Path) -> pa.Array:
    """The most frequent words of a vocabulary that is sorted so, in letters."""
    tokens: dict[str, int] = json.loads(vocabulary.read_text("utf-8"))["model"]["vocab"]
    by_id = sorted(tokens, key=tokens.__getitem__)[_FIRST_WORD:]
    return pa.array([word for word in by_id if word.isascii() and word.isalpha()][:_NUM_WORDS])


def _texts(words: pa.Array, bounds: NDArray[np.float64], num: int, random: np.random.Generator) -> pa.Array:
    lengths = random.integers(_SHORTEST, _LONGEST + 1, num)
    drawn = np.searchsorted(bounds, random.random(lengths.sum()), side="right").clip(max=len(words) - 1)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), words.take(pa.array(drawn)))
    return pc.binary_join(lists, " ")


def _write_parquet(file: Path, blocks: Iterator[tuple[NDArray[np.int64], pa.Array]]) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(file, schema) as writer:
        for ids, texts in blocks:
            # Bytes that are no UTF-8 may well stand in a column of strings: nothing that writes Parquet looks.
            strings = pa.Array.from_buffers(pa.string(), len(texts), texts.buffers(), texts.null_count, texts.offset)
            writer.write_table(pa.table([pa.array(ids), strings], schema=schema))


def _write_jsonl(file: Path, blocks: Iterator[tuple[NDArray[np.int64], pa.Array]]) -> None:
    with file.open("wb") as out:
        for ids, texts in blocks:
            for number, text in zip(ids.tolist(), texts.to_pylist(), strict=True):
                # The words are ASCII letters: they stand in JSON as they are, and what is no UTF-8 stays so.
                value = b"null" if text is None else b'"' + text + b'"'
                out.write(b'{"id": %d, "text": %b}\n' % (number, value))


def read(folder: Path) -> Iterator[tuple[NDArray[np.int64], list[str | None]]]:
    """Ids and texts of a corpus that `write` has written, block by block; None is a row that is no good."""
    for file in sorted(folder.iterdir()):
        if file.suffix == ".parquet":
            # As bytes, since pyarrow refuses a whole block for one text that is none.
            for batch in pq.ParquetFile(file).iter_batches(_BLOCK, columns=["id", "text"]):
                yield batch.column("id").to_numpy(), [_decoded(text) for text in _bytes(batch.column("text"))]
        else:
            yield from _read_jsonl(file)


def _bytes(texts: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = texts.view(pa.binary()).to_pylist()
    return found


def _decoded(text: bytes | None) -> str | None:
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return None


def _read_jsonl(file: Path) -> Iterator[tuple[NDArray[np.int64], list[str | None]]]:
    ids: list[int] = []
    texts: list[str | None] = []
    with file.open("rb") as lines:
        for line in lines:
            number, text = _row(line)
            ids.append(number)
            texts.append(text)
    yield np.array(ids, np.int64), texts


def _row(line: bytes) -> tuple[int, str | None]:
    row: dict[str, Any] = json.loads(line.decode("utf-8", "replace"))
    is_text = row["text"] is not None and "\ufffd" not in row["text"]
    return row["id"], row["text"] if is_text else None
