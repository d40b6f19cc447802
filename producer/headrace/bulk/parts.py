"""The names of all parts of a corpus, without a list of them: a billion rows have a hundred thousand."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from headrace.bulk.jobs.record import ShardRecord
from headrace.bulk.sink import part_name


@dataclass(frozen=True, slots=True)
class Parts(Collection[str]):
    """Names of the parts that the shards of a job came to.

    Attributes:
        windows: how many each shard has, by its number.
    """

    windows: Mapping[int, int]

    @classmethod
    def of(cls, shards: Mapping[int, ShardRecord]) -> Self:
        """Those of a job whose shards are done."""
        ends = {number: record.checkpoint.spans.spans for number, record in shards.items()}
        return cls({number: spans[-1].end_window if spans else 0 for number, spans in ends.items()})

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        shard, _, window = name.partition("-")
        if not (shard.isdecimal() and window.isdecimal()):
            return False
        return int(window) < self.windows.get(int(shard), 0)

    def __iter__(self) -> Iterator[str]:
        return (part_name(shard, window) for shard in sorted(self.windows) for window in range(self.windows[shard]))

    def __len__(self) -> int:
        return sum(self.windows.values())
