"""The window of reply times and its quantile."""

import math

from headrace.reply_times import ReplyTimes
from hypothesis import given
from hypothesis import strategies as st


def of(times_s: list[float], quantile: float = 0.95) -> ReplyTimes:
    times = ReplyTimes(quantile)
    for seconds in times_s:
        times.add(seconds)
    return times


@given(st.lists(st.floats(0.001, 10), min_size=20, max_size=256))
def test_as_many_replies_as_the_quantile_says_come_in_time(times_s: list[float]) -> None:
    late_s = of(times_s).late_s
    assert late_s in times_s
    in_time = sum(seconds <= late_s for seconds in times_s)
    assert in_time >= math.ceil(0.95 * len(times_s))
    assert sum(seconds < late_s for seconds in times_s) < math.ceil(0.95 * len(times_s))


def test_a_few_replies_say_nothing() -> None:
    assert of([0.1] * 19).late_s is None
    assert of([0.1] * 20).late_s == 0.1


def test_a_fleet_that_became_slower_is_known_to_be_so() -> None:
    times = of([0.01] * 500)
    assert times.late_s == 0.01
    for _ in range(64):
        times.add(0.5)
    assert times.late_s == 0.5


def test_what_is_long_ago_is_forgotten() -> None:
    times = of([9.0] * 100)
    for _ in range(256):
        times.add(0.01)
    assert times.late_s == 0.01
