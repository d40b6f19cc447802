"""Vectors and scores made of token ids by hashing, in the place of a model.

Pure, and the same in any process. Each token has a direction of its own and one in common with its family; a text's row
is their sum, with a little of each pair of neighbours, for their order (the hashing trick, Weinberger et al. 2009, with
dense directions so that few dimensions do). So texts that share words are alike. Does not know texts, nor chunks.
"""

import numpy as np
from headrace_contracts import Options, Rows, TokenIds
from numpy.typing import NDArray

from headrace.testing.words import CLS, SEP, Vocabulary

_OWN, _FAMILY, _NEIGHBOURS, _SPECIAL = 0.5, 0.85, 0.2, 0.1
# What a direction is of, so that the same number as a token and as a family has two.
_TOKEN_KIND, _FAMILY_KIND, _PAIR_KIND = 1, 2, 3
_RAW_BOUND = 5.0
# Words begun alike count so much of a match.
_ALIKE = 0.5
_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def row(token_ids: TokenIds, vocabulary: Vocabulary, dim: int, salt: int) -> NDArray[np.float32]:
    """The row [dim] of a sequence as its model pooled it, of any length.

    Args:
        token_ids: [n], special tokens included.
        vocabulary: that they are of.
        dim: of the model.
        salt: number of the model: two of them give two rows.
    """
    ids = token_ids.astype(np.uint64)
    is_special = np.isin(ids, (CLS, SEP))
    words = ids[~is_special]
    families = np.array([vocabulary.family(int(word)) for word in words], np.uint64)
    summed = _OWN * _directions(words, _TOKEN_KIND, dim, salt)
    summed += _FAMILY * _directions(families, _FAMILY_KIND, dim, salt)
    summed += _NEIGHBOURS * _directions(_mixed(words[:-1]) ^ words[1:], _PAIR_KIND, dim, salt)
    # An empty text has a row too.
    summed += _SPECIAL * _directions(ids[is_special], _TOKEN_KIND, dim, salt)
    return np.divide(summed, np.sqrt(len(ids))).astype(np.float32)


def finish(rows: NDArray[np.float32], options: Options) -> Rows:
    """Cut the rows [n, dim], normalise and cast them, as an engine does."""
    kept = rows[:, : options.dim]
    if options.dtype == "i8":
        return np.asarray(np.rint(127 * np.tanh(kept)), np.int8)
    if options.dtype == "b1":
        return np.packbits(kept >= 0, axis=1)
    if options.normalize:
        kept = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    return np.asarray(kept, np.float16 if options.dtype == "f16" else np.float32)


def overlap(token_ids: TokenIds, vocabulary: Vocabulary, *, raw: bool) -> float:
    """How much of a query's words the document has: 1 for the same words, 0 for none.

    Args:
        token_ids: [n] of the pair, a SEP behind the query.
        vocabulary: that they are of.
        raw: -5 to 5 instead, in the same order.
    """
    (ends,) = np.nonzero(token_ids == SEP)
    query, document = (
        {int(token_id) for token_id in part if token_id not in {CLS, SEP}}
        for part in (token_ids[: ends[0]], token_ids[ends[0] :])
    )
    # Of two documents that have all of a query, the one that has less besides.
    found = 0.9 * _share(query, document, vocabulary) + 0.1 * _share(document, query, vocabulary)
    return _RAW_BOUND * (2 * found - 1) if raw else found


def _share(words: set[int], among: set[int], vocabulary: Vocabulary) -> float:
    families = set(map(vocabulary.family, among))
    matches = (1 if word in among else _ALIKE * (vocabulary.family(word) in families) for word in words)
    return sum(matches) / len(words) if words and among else 0


def _directions(keys: NDArray[np.uint64], kind: int, dim: int, salt: int) -> NDArray[np.float64]:
    """The sum [dim] of the directions of the keys [n], each of numbers in -1 … 1."""
    distinct, counts = np.unique(keys, return_counts=True)
    seeds = _mixed(distinct ^ np.uint64(kind << 32 ^ salt))
    places = np.arange(dim, dtype=np.uint64)
    summed = np.zeros(dim)
    for seed, count in zip(seeds, counts, strict=True):  # one at a time: a long text must not take much memory
        bits = _mixed(seed + places * _GOLDEN)
        summed += count * ((bits >> np.uint64(11)) * 2.0**-52 - 1)
    return summed


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number hashed, by the finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    mixed = numbers + _GOLDEN
    mixed = (mixed ^ mixed >> np.uint64(30)) * _MIX_1
    mixed = (mixed ^ mixed >> np.uint64(27)) * _MIX_2
    return mixed ^ mixed >> np.uint64(31)
