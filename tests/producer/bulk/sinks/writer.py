"""A process that writes the same parts to a sink again and again, and says so after each: for tests that end it.

Run as `python -m tests.producer.bulk.sinks.writer SINK SEED NUM_PARTS`.
"""

import sys

from headrace.bulk.ledger import Failure, Ledger, Record
from headrace.bulk.sinks.open_sink import open_sink

from tests.producer.bulk.parts import CARD, part


def main(spelling: str, seed: int, num_parts: int) -> None:
    sink = open_sink(spelling)
    sink.open(CARD, replace=False)
    place = sink.place
    assert place is not None
    ledger = Ledger(place / "job")
    while True:
        for window in range(num_parts):
            each = part([f"{window}-{row}" for row in range(300)], window=window, seed=seed)
            sink.write(each)
            ledger.write_errors(each.name, [Failure(f"x{row}", 0, row, "null", "x" * 100) for row in range(50)])
            ledger.append(
                0,
                Record(
                    window=window,
                    first=0,
                    rows=300,
                    written=300,
                    unchanged=0,
                    failed=0,
                    tokens=seed,
                    ids="",
                    vectors="",
                ),
            )
            print(window, flush=True)  # the test waits for it
        sink.finish([part([], window=window).name for window in range(num_parts)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
