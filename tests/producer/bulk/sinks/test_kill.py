"""A process that writes to a sink may be killed at any moment."""

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from headrace.bulk.ledger import Ledger
from headrace.bulk.sinks.open_sink import open_sink

from ..parts import CARD, assert_holds, part

WRITER = "tests.producer.bulk.sinks.writer"
ROOT = Path(__file__).parents[4]
NUM_PARTS = 4


def killed(spelling: str, seed: int, moment: random.Random) -> int:
    """Run a writer and kill it at some moment; how often it said that a part was written."""
    with subprocess.Popen(
        [sys.executable, "-m", WRITER, spelling, str(seed), str(NUM_PARTS)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        try:
            said = [writer.stdout.readline() for _ in range(moment.randint(1, 3 * NUM_PARTS))]
            with suppress(subprocess.TimeoutExpired):  # somewhere in what it does next, of which nothing can be seen
                writer.wait(moment.uniform(0, 0.02))
        finally:
            writer.kill()
        return len(said) + len(writer.stdout.read().splitlines())


@pytest.mark.parametrize("spelling", ["parquet:{}", "numpy:{}", "lance:{}#t"])
def test_what_was_written_before_is_there_and_all_is_there_once_after_the_next_try(
    tmp_path: Path, spelling: str
) -> None:
    moment = random.Random(spelling)  # noqa: S311 - which moments is no secret
    where = spelling.format(tmp_path / "s")
    for seed in range(4):
        num_written = killed(where, seed, moment)
        sink = open_sink(where)
        sink.open(CARD, replace=False)
        assert sink.place is not None
        ledger = Ledger(sink.place / "job")
        records = ledger.records(0)
        for window in range(min(num_written, NUM_PARTS)):
            each = part([f"{window}-{row}" for row in range(300)], window=window, seed=seed)
            found = sink.lookup(each.ids)
            assert [found[one].hash for one in each.ids] == list(each.hashes)
            assert [found[one].vector.tobytes() for one in each.ids] == [row.tobytes() for row in each.vectors]
            assert records[window].tokens == seed
        assert len(list(ledger.errors())) in range(50 * min(num_written, NUM_PARTS), 50 * NUM_PARTS + 1, 50)
        again = [
            part([f"{window}-{row}" for row in range(300)], window=window, seed=seed) for window in range(NUM_PARTS)
        ]
        for each in again:
            sink.write(each)
        sink.finish([each.name for each in again])
        ledger.join_errors()
        assert_holds(sink, *again)
        assert not list(tmp_path.rglob("*.unfinished"))
