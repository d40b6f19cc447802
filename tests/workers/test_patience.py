import pytest
from headrace_workers.patience import Patience

QUEUE = "HR_ONLINE_m_0_0"


def test_before_enough_callers_came_it_is_not_known() -> None:
    patience = Patience()
    for _ in range(19):
        patience.add(QUEUE, 1)
    assert patience.seconds(QUEUE) is None
    patience.add(QUEUE, 1)
    assert patience.seconds(QUEUE) == 1


def test_it_is_what_nine_of_ten_callers_have_whatever_the_tenth_does() -> None:
    patience = Patience()
    for number in range(500):
        patience.add(QUEUE, 0.001 if number % 20 == 0 else 2)
    assert patience.seconds(QUEUE) == pytest.approx(2)
    for number in range(500):
        patience.add(QUEUE, 1 if number % 5 == 0 else 30)
    assert patience.seconds(QUEUE) == pytest.approx(1)


def test_nobody_waits_for_less_than_no_time() -> None:
    patience = Patience()
    for _ in range(20):
        patience.add(QUEUE, -0.08)
    assert patience.seconds(QUEUE) == 0


def test_the_callers_of_one_queue_say_nothing_of_those_of_another() -> None:
    patience = Patience()
    for _ in range(20):
        patience.add(QUEUE, 0.1)
        patience.add("HR_ONLINE_m_0_1", 30)
    assert patience.seconds(QUEUE) == pytest.approx(0.1)
    assert patience.seconds("HR_ONLINE_m_0_1") == 30
    assert patience.seconds("HR_ONLINE_m_0_2") is None
