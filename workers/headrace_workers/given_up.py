"""What callers gave up: the ids of chunks that are not to run any more.

Knows that a caller may give up a chunk that is in another worker's hands, or that the broker still has and may bring
here later: so ids are kept, as many as a large fleet gives up in a while, and the oldest go first. Does not know NATS,
nor where a chunk is now.
"""

from collections.abc import Iterable

_MAX_IDS = 65_536  # some 10 MB


class GivenUp:
    """A set of ids that never grows beyond a bound."""

    def __init__(self, max_ids: int = _MAX_IDS) -> None:
        """Keep so many."""
        self._max_ids = max_ids
        self._ids: dict[str, None] = {}

    def __contains__(self, chunk_id: object) -> bool:
        return chunk_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, chunk_ids: Iterable[str]) -> None:
        """Nobody waits for these any more."""
        for chunk_id in chunk_ids:
            self._ids[chunk_id] = None
        while len(self._ids) > self._max_ids:
            del self._ids[next(iter(self._ids))]
