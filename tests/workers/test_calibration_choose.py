"""The budgets that follow from a law."""

import pytest
from headrace_workers.calibration.choose import Choice, choose
from headrace_workers.calibration.cost import Cost
from hypothesis import given
from hypothesis import strategies as st

from .calibrations import LAW

laws = st.builds(Cost, a_ms=st.floats(0, 50), b_ms=st.floats(0, 1), c_ms=st.floats(0, 1e-3))
max_lengths = st.integers(1, 32768)
targets = st.floats(0.1, 10_000)
ahead = st.integers(1, 3)


def chosen(law: Cost, max_length: int = 256, target_ms: float = 100, steps_ahead: int = 1) -> Choice:
    return choose(law, max_length=max_length, target_ms=target_ms, most_measured=2**17, steps_ahead=steps_ahead)


@given(laws, max_lengths, targets, ahead)
def test_no_step_of_any_lengths_makes_online_wait_longer_than_the_target_unless_it_says_so(
    law: Cost, max_length: int, target_ms: float, steps_ahead: int
) -> None:
    choice = chosen(law, max_length, target_ms, steps_ahead)
    worst_ms = steps_ahead * law.full_step_ms(choice.step_tokens, max_length)
    assert choice.wait_ms == pytest.approx(worst_ms)
    assert choice.wait_ms <= target_ms * (1 + 1e-9) or choice.reason == "longest"


@given(laws, max_lengths, targets, targets)
def test_a_longer_target_never_gives_a_smaller_step(law: Cost, max_length: int, one: float, other: float) -> None:
    short, long = sorted((one, other))
    assert chosen(law, max_length, short).step_tokens <= chosen(law, max_length, long).step_tokens


@given(laws, max_lengths, targets, ahead)
def test_a_step_holds_the_longest_sequence_and_a_purse_the_steps_that_run_and_the_next(
    law: Cost, max_length: int, target_ms: float, steps_ahead: int
) -> None:
    choice = chosen(law, max_length, target_ms, steps_ahead)
    assert choice.step_tokens >= max_length
    assert choice.budget_tokens // 2 >= (steps_ahead + 1) * choice.step_tokens


@given(laws, max_lengths, targets)
def test_a_step_is_never_larger_than_what_was_measured(law: Cost, max_length: int, target_ms: float) -> None:
    choice = choose(law, max_length=max_length, target_ms=target_ms, most_measured=5000)
    assert choice.step_tokens <= max(5000, max_length)


def test_a_step_is_bounded_by_the_target_by_what_it_gains_or_by_what_was_measured() -> None:
    by_target = chosen(LAW)
    assert (by_target.reason, by_target.step_tokens) == ("target", 576)  # (100 - 3) / (0.15 + 256 · 5e-5) = 595.8
    by_gain = chosen(LAW, target_ms=10_000)
    assert (by_gain.reason, by_gain.step_tokens) == ("saturated", 2048)  # 99 · 3 / 0.15 = 1980: the default is more
    beyond = chosen(Cost(a_ms=6, b_ms=0.15, c_ms=0), target_ms=10_000)
    assert (beyond.reason, beyond.step_tokens) == ("saturated", 3904)  # 99 · 6 / 0.15 = 3960
    by_points = choose(LAW, max_length=256, target_ms=10_000, most_measured=1024)
    assert (by_points.reason, by_points.step_tokens) == ("measured", 1024)


@given(st.floats(0, 1e-3), max_lengths)
def test_an_overhead_of_next_to_nothing_makes_no_tiny_steps_only_a_target_does(a_ms: float, max_length: int) -> None:
    law = Cost(a_ms=a_ms, b_ms=0.01, c_ms=0)
    assert chosen(law, max_length, target_ms=10_000).step_tokens >= 2048
    assert chosen(law, max_length, target_ms=1).step_tokens == max(64, max_length)


def test_a_target_that_the_longest_sequence_misses_gives_a_step_of_just_that_and_says_so() -> None:
    choice = chosen(LAW, target_ms=20)
    assert (choice.reason, choice.step_tokens, choice.meets_target) == ("longest", 256, False)
    assert choice.wait_ms == pytest.approx(3 + 0.15 * 256 + 5e-5 * 256 * 256)


def test_saturation_is_where_nine_tenths_of_the_best_rate_are_reached() -> None:
    choice = chosen(LAW)
    assert choice.saturation_tokens == 180
    assert choice.best_rate == pytest.approx(1000 / 0.15)
    assert 180 / LAW.step_ms(180, 0) == pytest.approx(0.9 / LAW.b_ms)


def test_the_quadratic_part_takes_over_at_the_length_where_it_equals_the_linear_one() -> None:
    choice = chosen(LAW)
    assert choice.quadratic_length == 3000
    assert LAW.c_ms * 3000**2 == pytest.approx(LAW.b_ms * 3000)


def test_parts_that_cost_nothing_have_no_saturation_and_no_quadratic_length() -> None:
    choice = chosen(Cost(a_ms=5, b_ms=0, c_ms=0))
    assert (choice.saturation_tokens, choice.best_rate, choice.quadratic_length) == (None, None, None)
    assert (choice.reason, choice.step_tokens) == ("measured", 2**17)


def test_a_device_that_takes_two_steps_gets_steps_of_half_the_target() -> None:
    one, two = chosen(LAW, target_ms=50), chosen(LAW, target_ms=100, steps_ahead=2)
    assert one.step_tokens == two.step_tokens
    assert two.wait_ms == pytest.approx(2 * one.wait_ms)


def test_what_is_in_hand_lasts_for_a_pull_however_large_the_step() -> None:
    law = Cost(a_ms=1, b_ms=0.0005, c_ms=1e-9)
    choice = chosen(law)
    spare = choice.budget_tokens // 2 - 2 * choice.step_tokens
    assert spare * 1000 / 50 == pytest.approx(1000 * choice.step_tokens / law.step_ms(choice.step_tokens, 0), rel=0.01)
    assert choice.budget_for(4096) - choice.budget_for(2048) == 4 * 2048


@given(laws, max_lengths, targets, ahead)
def test_no_less_is_in_hand_than_without_a_calibration(
    law: Cost, max_length: int, target_ms: float, steps_ahead: int
) -> None:
    assert chosen(law, max_length, target_ms, steps_ahead).budget_tokens >= 8 * 2048
    assert chosen(LAW).budget_tokens == 8 * 2048
