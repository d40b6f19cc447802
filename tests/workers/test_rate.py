import pytest
from headrace_workers.calibration.cost import Cost
from headrace_workers.rate import Rate, calibrated_rate


def run(rate: Rate, steps: int, *, tokens: int = 1000, each_s: float = 0.1, now_s: float = 0.0) -> float:
    """Steps that follow one another at once; the time when the last is done."""
    for _ in range(steps):
        tells = rate.start(10, now_s)
        now_s += each_s
        rate.finish(tokens, tells=tells, now_s=now_s)
    return now_s


def test_before_enough_steps_have_followed_one_another_nothing_is_known() -> None:
    rate = Rate()
    run(rate, 10)
    assert rate.value is None


def test_then_it_is_tokens_by_the_time_from_one_step_to_the_next() -> None:
    rate = Rate()
    run(rate, 12)
    assert rate.value == 10_000


def test_a_calibration_counts_until_then_and_no_longer() -> None:
    rate = Rate(calibrated=50_000)
    now_s = run(rate, 8)
    assert rate.value == 50_000
    run(rate, 8, now_s=now_s)
    assert rate.value == 10_000


def test_a_device_that_waited_between_its_steps_shows_nothing() -> None:
    rate = Rate()
    now_s = 0.0
    for _ in range(1000):
        rate.wait()
        now_s = run(rate, 1, now_s=now_s + 5)
    assert rate.value is None


def test_what_waits_in_the_broker_is_work_too_and_the_time_of_a_pull_counts() -> None:
    rate = Rate()
    now_s = 0.0
    for _ in range(30):
        rate.arrive(num_pending=10)
        rate.wait()
        now_s = run(rate, 1, now_s=now_s + 0.05)
    assert rate.value == round(1000 / 0.15)


def test_less_than_a_step_in_the_broker_may_be_gone_before_it_comes_here() -> None:
    rate = Rate()
    now_s = 0.0
    for _ in range(30):
        rate.arrive(num_pending=9)
        rate.wait()
        now_s = run(rate, 1, now_s=now_s + 0.05)
    assert rate.value is None


def test_a_worker_that_was_served_nothing_of_what_waits_in_the_broker_was_idle() -> None:
    rate = Rate()
    now_s = 0.0
    for _ in range(30):
        rate.arrive(num_pending=1000)
        rate.wait()
        now_s = run(rate, 1, now_s=now_s + 0.2)
    assert rate.value is None


def test_a_step_that_is_planned_while_a_long_one_runs_did_not_wait() -> None:
    rate = Rate()
    first = rate.start(10, 0)
    rate.arrive(num_pending=50)
    rate.wait()
    second = rate.start(10, 1)
    rate.finish(1000, tells=first, now_s=2)
    rate.finish(1000, tells=second, now_s=4)
    assert rate.value == 500


def test_steps_that_leave_room_on_purpose_do_not_tell() -> None:
    rate = Rate()
    now_s = 0.0
    for _ in range(20):
        small = rate.start(1, now_s, is_full=False)
        rate.finish(10, tells=small, now_s=now_s + 0.05)
        now_s = run(rate, 1, now_s=now_s + 0.05)
    assert rate.value == 10_000


def test_steps_in_flight_together_count_by_when_they_are_done() -> None:
    rate = Rate()
    first, second = rate.start(10, 0), rate.start(10, 0)
    rate.finish(1000, tells=first, now_s=0.2)
    for number in range(3, 40):
        third = rate.start(10, 0.1 * (number - 1))
        rate.finish(1000, tells=second, now_s=0.1 * number)
        second = third
    assert rate.value == 10_000


def test_the_time_that_a_failed_step_took_does_not_count() -> None:
    rate = Rate()
    now_s = run(rate, 12)
    rate.start(10, now_s)
    rate.fail()
    run(rate, 12, now_s=now_s + 60)
    assert rate.value == 10_000


def test_what_the_device_does_now_outweighs_what_it_did_a_minute_ago() -> None:
    rate = Rate()
    now_s = run(rate, 100, each_s=0.1)
    run(rate, 60, each_s=1, now_s=now_s)
    assert rate.value == pytest.approx(1000, rel=0.05)


def test_one_slow_step_does_not_overturn_many() -> None:
    rate = Rate()
    now_s = run(rate, 200)
    run(rate, 1, each_s=1, now_s=now_s)
    assert rate.value == pytest.approx(10_000, rel=0.15)


def test_a_worker_that_does_far_more_than_it_is_thought_to_is_found_out_although_no_steps_follow() -> None:
    rate = Rate(calibrated=100)
    rate.look(0)
    for second in range(1, 31):
        rate.wait()
        run(rate, 1, tokens=1000, now_s=second)
        rate.look(second + 0.5)
    assert rate.value is not None
    assert 1000 / 1.5 <= rate.value <= 1000


def test_a_worker_with_little_to_do_is_not_taken_for_a_slow_one() -> None:
    rate = Rate()
    now_s = run(rate, 30)
    for second in range(60):
        rate.wait()
        run(rate, 1, tokens=10, now_s=now_s + second)
        rate.look(now_s + second + 0.5)
    assert rate.value == 10_000


def test_where_nothing_is_known_what_a_worker_happens_to_do_is_no_rate() -> None:
    rate = Rate()
    rate.look(0)
    rate.wait()
    run(rate, 1, now_s=1)
    rate.look(10)
    assert rate.value is None


def test_a_calibration_gives_the_rate_of_full_steps_of_usual_texts() -> None:
    cost = Cost(a_ms=10, b_ms=0.1, c_ms=0.001)
    # 10 + 0.1 × 1000 + 0.001 × 1000 × 128 = 238 ms
    assert calibrated_rate(cost, 1000, max_length=32_768) == round(1000 / 0.238)
    assert calibrated_rate(cost, 1000, max_length=64) == round(1000 / 0.174)


def test_a_law_without_costs_gives_no_rate() -> None:
    assert calibrated_rate(Cost(a_ms=0, b_ms=0, c_ms=0), 1000, max_length=64) is None
