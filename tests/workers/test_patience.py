import pytest
from headrace_workers.patience import Patience


def test_before_enough_callers_came_it_is_not_known() -> None:
    patience = Patience()
    for _ in range(19):
        patience.add(1)
    assert patience.seconds is None
    patience.add(1)
    assert patience.seconds == 1


def test_it_is_what_nine_of_ten_callers_have_whatever_the_tenth_does() -> None:
    patience = Patience()
    for number in range(500):
        patience.add(0.001 if number % 20 == 0 else 2)
    assert patience.seconds == pytest.approx(2)
    for number in range(500):
        patience.add(1 if number % 5 == 0 else 30)
    assert patience.seconds == pytest.approx(1)


def test_nobody_waits_for_less_than_no_time() -> None:
    patience = Patience()
    for _ in range(20):
        patience.add(-0.08)
    assert patience.seconds == 0
