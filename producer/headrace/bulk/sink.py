"""What a place for vectors must be able to do to take those of a bulk job.

Knows the protocol only; sinks/ has the implementations. A sink is written to on a thread, one call at a time, so its
methods may block.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.bulk.card import Card
from headrace.bulk.rows import Id


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The vectors of one window of a shard, in its order; rows without a vector are left out.

    Attributes:
        shard: number of the shard.
        window: number of the window in it.
        ids: [n], each once.
        hashes: [n] of 16 bytes, of the texts.
        vectors: [n, elements], as the card's dtype and dim say (contracts: numpy_dtype, row_elements).
        fresh: [n] whether a vector is new; the others are in the sink already, with this id, hash and vector.
        texts: [n], where the job keeps them beside the vectors; else None.
    """

    shard: int
    window: int
    ids: Sequence[Id]
    hashes: Sequence[bytes]
    vectors: NDArray[np.generic]
    fresh: NDArray[np.bool_]
    texts: Sequence[str] | None = None

    @property
    def name(self) -> str:
        """Its name, which sorts as the corpus does: the same for the same window on every try."""
        return part_name(self.shard, self.window)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What a sink has under an id.

    Attributes:
        hash: of the text.
        vector: [elements].
    """

    hash: bytes
    vector: NDArray[np.generic]


class Sink(Protocol):
    """A place for vectors, by id."""

    @property
    def name(self) -> str:
        """What people call it; another one for another place. Without passwords."""
        ...

    @property
    def is_one_corpus(self) -> bool:
        """Whether it holds what one corpus has and no more: then `finish` drops what an older one has left there.

        False where rows stay until somebody deletes them, and several corpora may share it, as in a database.
        """
        ...

    @property
    def place(self) -> Path | None:
        """A folder for what the job keeps beside the vectors; None where the sink is no folder."""
        ...

    def open(self, card: Card, *, replace: bool) -> None:
        """Make it ready, or see that what is there goes with `card`. Called once, before all else, by every process.

        Args:
            card: what the vectors are.
            replace: empty it if what is there is of another card.

        Raises:
            CardMismatch: it holds vectors of another card, and `replace` is false.
            SinkError: it cannot be written to.
        """
        ...

    def write(self, part: Part) -> None:
        """Keep a part, in place of what the sink has under its ids. Once this returns it survives a loss of power.

        The same part may come again, after a crash in the middle of it too; it must then be there once.

        Raises:
            SinkError: it could not be kept, for now or for ever; whoever has mended the reason may try again.
        """
        ...

    def lookup(self, ids: Sequence[Id]) -> Mapping[Id, Stored]:
        """What is there of these ids.

        Raises:
            SinkError: it cannot be read.
        """
        ...

    def count(self) -> int:
        """Rows that are there, doubled ones counted twice.

        Raises:
            SinkError: it cannot be read.
        """
        ...

    def finish(self, parts: Collection[str]) -> None:
        """All parts are written, of all processes; called by one of them, perhaps more than once.

        Args:
            parts: their names, by which those of an older corpus can be told and dropped, where parts are files.

        Raises:
            SinkError: it could not be done.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def part_name(shard: int, window: int) -> str:
    """The name of a part: see Part.name."""
    return f"{shard:05d}-{window:06d}"
