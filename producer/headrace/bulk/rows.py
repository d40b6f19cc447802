"""Rows of a corpus: an id and a text each, or the reason why there is no text.

Knows what a row is. Does not know where rows come from (source.py) or where vectors go (sink.py).
"""

from dataclasses import dataclass
from typing import TypeAlias

Id: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a row has no vector.

    Attributes:
        code: one word, for programs: `null`, `not_a_string`, `invalid_utf8`, `unreadable`, `no_id`, `bad_id`,
            `duplicate_id`, or an error code of the wire contract.
        text: what was found, for people.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Some consecutive rows of a shard.

    Attributes:
        first: position of the first of them in the shard, from 0.
        ids: one a row. A row whose id cannot be read has a Problem for a text, and here what names it to people.
        texts: one a row, or why there is none.
    """

    first: int
    ids: list[Id]
    texts: list[str | Problem]

    def __len__(self) -> int:
        return len(self.ids)
