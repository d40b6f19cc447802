"""When a refused chunk is tried again: never before the hint, past the deadline or beyond the budget."""

import pytest
from headrace.retries import Retries
from headrace.retry_budget import RetryBudget
from hypothesis import given
from hypothesis import strategies as st

times = st.floats(0.001, 100)


def longest(_: float, high: float) -> float:
    return high


@given(hint_s=times, deadline_s=times, share=st.floats(0, 1))
def test_a_pause_lies_between_the_hint_and_the_deadline(hint_s: float, deadline_s: float, share: float) -> None:
    retries = Retries(None, RetryBudget(), lambda low, high: low + share * (high - low))
    now_s = 0.0
    while (pause_s := retries.pause_s(hint_s, now_s, deadline_s)) is not None:
        assert hint_s <= pause_s
        now_s += pause_s
        assert now_s < deadline_s


def test_pauses_grow_threefold_up_to_a_limit() -> None:
    retries = Retries(None, RetryBudget(), longest)
    assert [retries.pause_s(0.2, 0, 1e6) for _ in range(5)] == pytest.approx([0.6, 1.8, 5.4, 10, 10])


def test_a_hint_beyond_the_limit_is_kept_to() -> None:
    assert Retries(None, RetryBudget(), longest).pause_s(45, 0, 1e6) == 45


def test_a_hint_of_nothing_is_no_leave_to_ask_all_the_time() -> None:
    assert Retries(None, RetryBudget(), lambda low, _: low).pause_s(0, 0, 1e6) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (0, ""),
        (1, " (tried again once; retries is 1)"),
        (2, " (tried again 2 times; retries is 2)"),
        (None, " (tried again 3 times; the client's retry budget is spent)"),
    ],
)
def test_what_ended_the_retries_is_said(limit: int | None, said: str) -> None:
    retries = Retries(limit, RetryBudget(reserve=3, refill_per_s=0))
    while retries.pause_s(0.1, 0, 1e6) is not None:
        pass
    assert retries.said == said


def test_a_try_that_would_come_too_late_costs_no_budget() -> None:
    budget = RetryBudget(reserve=1, refill_per_s=0)
    late = Retries(None, budget)
    assert late.pause_s(1, 0, 1) is None
    assert late.said == " (not tried again: the next try would come after the deadline)"
    assert Retries(None, budget).pause_s(1, 0, 100) is not None
