"""What of a window must be embedded: each different text once, and none that the sink has already.

Pure. Knows rows, the hash of a text, and what the sink said it has. Does not know tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from headrace.bulk.rows import Id, Problem
from headrace.bulk.sink import Stored
from headrace.bulk.window import Window

HASH_BYTES = 16
# What every sink can take for a key.
_MAX_ID_BYTES = 1024
_NONE = -1


def text_hash(text: str) -> bytes:
    """The hash by which a later job sees that a text is the same: 16 bytes of BLAKE2b (RFC 7693) of its UTF-8."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


@dataclass(slots=True, eq=False)
class Sifted:
    """The rows of a window, sorted out.

    Attributes:
        window: it.
        hashes: of the text of each row; empty where there is none.
        problems: by place in the window, of rows that can have no vector.
        unchanged: by place, what the sink has of a row already.
        texts: the different texts to embed, in order of their first row.
        text_of: [rows] which of them is each row's; -1 for rows that need none.
    """

    window: Window
    hashes: list[bytes]
    problems: dict[int, Problem]
    unchanged: Mapping[int, Stored]
    texts: list[str]
    text_of: NDArray[np.int64]


def find_problems(window: Window) -> dict[int, Problem]:
    """The rows of a window that can have no vector, by place: without a text, without a key, or with one of another."""
    problems: dict[int, Problem] = {}
    seen: set[Id] = set()
    for place, (row_id, text) in enumerate(zip(window.ids, window.texts, strict=True)):
        if isinstance(text, Problem):
            problems[place] = text
        elif (unfit := _unfit(row_id)) is not None:
            problems[place] = Problem("bad_id", unfit)
        elif row_id in seen:
            problems[place] = Problem("duplicate_id", f"an earlier row has the id {row_id!r}: the first one counts")
        else:
            seen.add(row_id)
    return problems


def _unfit(row_id: Id) -> str | None:
    """Why an id is no key."""
    if isinstance(row_id, int):
        return None
    try:
        size = len(row_id.encode())
    except UnicodeEncodeError:
        return "the id holds half of a surrogate pair, which is no text"
    if size > _MAX_ID_BYTES:
        return f"the id has {size:,} bytes: at most {_MAX_ID_BYTES:,} are allowed"
    return "the id holds a NUL character" if "\0" in row_id else None


def sift(window: Window, stored: Mapping[Id, Stored], *, dedupe: bool) -> Sifted:
    """Sort out the rows of a window.

    Args:
        window: whose.
        stored: what the sink has of its ids.
        dedupe: embed a text once that several rows have.
    """
    problems = find_problems(window)
    hashes: list[bytes] = []
    unchanged: dict[int, Stored] = {}
    texts: list[str] = []
    places: dict[bytes, int] = {}
    text_of = np.full(len(window.ids), _NONE, np.int64)
    for place, (row_id, text) in enumerate(zip(window.ids, window.texts, strict=True)):
        if place in problems or isinstance(text, Problem):
            hashes.append(b"")
            continue
        hashed = text_hash(text)
        hashes.append(hashed)
        has = stored.get(row_id)
        if has is not None and has.hash == hashed:
            unchanged[place] = has
            continue
        known = places.get(hashed) if dedupe else None
        if known is None:
            known = places[hashed] = len(texts)
            texts.append(text)
        text_of[place] = known
    return Sifted(window, hashes, problems, unchanged, texts, text_of)
