"""How many rows may fail."""

import pytest
from headrace.bulk.tolerance import Tolerance
from headrace.errors import InputError, JobFailed


@pytest.mark.parametrize(("text", "share", "rows"), [("5%", 0.05, None), ("0%", 0, None), ("100", 1, 100), ("0", 1, 0)])
def test_it_is_a_share_or_a_number(text: str, share: float, rows: int | None) -> None:
    assert Tolerance.parse(text) == Tolerance(share, rows)


@pytest.mark.parametrize("text", ["", "%", "-1", "101%", "1.5", "many", "nan", "inf", "1e999"])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="max-errors is"):
        Tolerance.parse(text)


def test_a_share_is_judged_by_a_thousand_rows() -> None:
    Tolerance(0.1).check(50, 60)
    with pytest.raises(JobFailed, match="101 of 1,000 rows have failed, more than --max-errors 10%"):
        Tolerance(0.1).check(101, 1000)
    Tolerance(0.1).check(100, 1000)


def test_a_share_is_judged_by_all_rows_at_the_end() -> None:
    with pytest.raises(JobFailed):
        Tolerance(0.1).check(50, 60, is_all=True)
    Tolerance(0.1).check(0, 0, is_all=True)


def test_a_number_is_judged_at_once() -> None:
    Tolerance(rows=3).check(3, 4)
    with pytest.raises(JobFailed, match="4 of 4 rows"):
        Tolerance(rows=3).check(4, 4)
