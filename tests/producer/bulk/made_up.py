"""A corpus made up in memory, and what goes with it."""

from collections.abc import Iterator, Sequence

from headrace.bulk.rows import Id, Problem, Rows
from headrace.bulk.source import MAX_ROWS, Shard


class MadeUp:
    """Shards of (id, text) rows."""

    name = "made up"

    def __init__(self, *shards: Sequence[tuple[Id, str | Problem]], rows_at_a_time: int = MAX_ROWS) -> None:
        self.rows = [list(shard) for shard in shards]
        self.reads: list[tuple[int, int]] = []
        self._rows_at_a_time = rows_at_a_time

    def shards(self) -> Sequence[Shard]:
        return [Shard(f"shard {n}", f"{hash(tuple(rows)):x}", len(rows)) for n, rows in enumerate(self.rows)]

    def read(self, shard: int, first: int) -> Iterator[Rows]:
        self.reads.append((shard, first))
        rows, step = self.rows[shard], self._rows_at_a_time
        for at in range(first, len(rows), step):
            some = rows[at : at + step]
            yield Rows(at, [each[0] for each in some], [each[1] for each in some])


def corpus(num_rows: int, *, prefix: str = "r", num_shards: int = 1, **options: int) -> MadeUp:
    """Rows of a few different lengths; every eleventh text came before."""
    texts = [f"text {n if n % 11 else 7} of the mill " + "and the water runs " * (n % 5) for n in range(num_rows)]
    shards = [[(f"{prefix}{shard}-{n}", text) for n, text in enumerate(texts)] for shard in range(num_shards)]
    return MadeUp(*shards, **options)
