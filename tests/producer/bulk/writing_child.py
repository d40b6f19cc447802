"""A process that writes parts to a sink: python -m tests.producer.bulk.writing_child KIND PLACE SHARD NUM_WINDOWS.

It says "open", waits for a line, then says before each window that it begins it, and "done" at the end.
"""

import sys
from collections.abc import Iterator

from headrace.bulk.sink import Part

from .finite_parts import part
from .parts import CARD
from .sinks_by_kind import sink_of

_ROWS = 50


def windows(shard: int, num_windows: int) -> Iterator[Part]:
    """What it writes, which is always the same."""
    for window in range(num_windows):
        first = (shard * num_windows + window) * _ROWS
        yield part(range(first, first + _ROWS), shard=shard, window=window, seed=first, with_texts=True)


def main(kind: str, place: str, shard: int, num_windows: int) -> None:
    """Write them."""
    sink = sink_of(kind, place)
    sink.open(CARD, replace=False)
    print("open", flush=True)
    sys.stdin.readline()
    for each in windows(shard, num_windows):
        print(each.name, flush=True)
        sink.write(each)
    sink.close()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
