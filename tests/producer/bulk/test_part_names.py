"""The names of a corpus's parts, without a list of them."""

from headrace.bulk.cut import Span, Spans
from headrace.bulk.jobs.record import Checkpoint, ShardRecord
from headrace.bulk.parts import Parts


def parts(*windows: int) -> Parts:
    spans = [Spans((Span(0, count, 0, 10 * count),)) if count else Spans() for count in windows]
    return Parts.of({n: ShardRecord(n, None, 0, Checkpoint(each, is_done=True)) for n, each in enumerate(spans)})


def test_they_are_all_windows_of_all_shards() -> None:
    assert list(parts(2, 0, 1)) == ["00000-000000", "00000-000001", "00002-000000"]
    assert len(parts(2, 0, 1)) == 3


def test_what_is_beyond_them_is_none() -> None:
    found = parts(2, 0, 1)
    assert "00000-000001" in found
    assert "00000-000002" not in found
    assert "00001-000000" not in found
    assert "00007-000000" not in found
    assert "errors" not in found
