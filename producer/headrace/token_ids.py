"""What may be handed to `embed_ids`: sequences that somebody else has tokenised.

Knows the rules for token ids. Does not know texts, and adds nothing: special tokens are the caller's affair.
"""

from collections.abc import Iterable, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
from headrace_contracts import ModelSpec, TokenIds
from numpy.typing import NDArray

from headrace.errors import InputError
from headrace.tokens import Tokenized, in_turn

IdSequence: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]


def listed(token_ids: object) -> list[Any]:
    """The sequences, in a list: a call that has to begin anew reads them again.

    Raises:
        InputError: it is no iterable of anything that could be one.
    """
    if isinstance(token_ids, (str, bytes)) or not isinstance(token_ids, Iterable):
        raise InputError(f"token_ids is of type {type(token_ids).__name__}: pass a list of lists of int")
    return list(token_ids)


async def read_token_ids(sequences: Sequence[Any], spec: ModelSpec) -> Tokenized:
    """Check the sequences against the model; many ids in a thread, so that the event loop goes on.

    Raises:
        InputError: one is no sequence of ints, is empty or longer than the model takes, or has an id outside its
            vocabulary.
    """
    num_ids = sum(len(ids) for ids in sequences if isinstance(ids, Sized))
    return await in_turn(lambda: _read_all(sequences, spec), num_ids)


def _read_all(sequences: Sequence[Any], spec: ModelSpec) -> Tokenized:
    read = [_read(f"token_ids[{index}]", ids, spec) for index, ids in enumerate(sequences)]
    return Tokenized(read, np.fromiter(map(len, read), np.int64, len(read)))


def _read(name: str, ids: Any, spec: ModelSpec) -> TokenIds:
    if isinstance(ids, np.ndarray):
        is_good = ids.ndim == 1 and ids.dtype.kind in "iu"
    else:
        # By type, not one by one: a request may hold a hundred thousand. bool is an int, and never meant here.
        is_good = isinstance(ids, (list, tuple)) and all(
            issubclass(kind, (int, np.integer)) and kind is not bool for kind in set(map(type, ids))
        )
    if not is_good:
        raise InputError(f"{name} is of type {type(ids).__name__}: every one must be a list of int")
    if not 0 < len(ids) <= spec.max_length:
        raise InputError(f"{name} has {len(ids)} token ids: {spec.name} takes 1 to {spec.max_length}")
    for extreme in (ids.min(), ids.max()) if isinstance(ids, np.ndarray) else (min(ids), max(ids)):
        if not 0 <= extreme < spec.vocab_size:
            raise InputError(f"{name} holds {extreme}: token ids of {spec.name} are 0 to {spec.vocab_size - 1}")
    return np.array(ids, np.uint32)
