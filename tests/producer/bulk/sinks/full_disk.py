"""Writes to a sink on a small disk that is full for a while, and ends with an error if anything is lost by that.

Run as `python -m tests.producer.bulk.sinks.full_disk FOLDER SPELLING`, where the disk is mounted on the folder and the
spelling is from there.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from headrace.bulk.ledger import Failure, Ledger, Record
from headrace.bulk.sinks.open_sink import open_sink
from headrace.errors import SinkError

from tests.producer.bulk.parts import CARD, assert_holds, part

NUM_ROWS = 2000


def main(folder: Path, spelling: str) -> None:
    os.chdir(folder)
    sink = open_sink(spelling)
    sink.open(CARD, replace=False)
    assert sink.place is not None
    ledger = Ledger(sink.place / "job")
    record = Record(window=0, first=0, rows=1, written=1, unchanged=0, failed=0, tokens=1, ids="", vectors="")
    parts = [part(range(n * NUM_ROWS, (n + 1) * NUM_ROWS), window=n, seed=n) for n in range(3)]
    failures = [Failure(row, 0, row, "null", "x" * 200) for row in range(100)]
    sink.write(parts[0])
    ledger.append(0, record)
    fill(folder / "ballast")
    refused = []
    attempts: list[Callable[[], object]] = [
        lambda: sink.write(parts[1]),
        lambda: sink.write(parts[1]),
        lambda: ledger.write_errors(parts[1].name, failures),
        *[lambda: ledger.append(0, record)] * 50,
        lambda: sink.finish([each.name for each in parts]) if spelling.startswith("numpy") else sink.write(parts[2]),
    ]
    for attempt in attempts:
        try:
            attempt()
        except SinkError as error:
            refused.append(str(error))
    assert len(refused) >= 4, refused
    assert all("No space left on device (ENOSPC): make room" in text for text in refused), refused
    assert not [path for path in folder.rglob("*.unfinished") if path.exists()]
    (folder / "ballast").unlink()
    for each in parts:
        sink.write(each)
    ledger.write_errors(parts[1].name, failures)
    ledger.append(1, record)
    ledger.append(0, record)
    sink.finish([each.name for each in parts])
    assert_holds(sink, *parts)
    assert ledger.records(0) == ledger.records(1) == {0: record}
    assert len(list(ledger.errors())) == len(failures)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (65536, 512, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
