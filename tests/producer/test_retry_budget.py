"""The retry budget: a share of the requests, and a small reserve."""

import pytest
from headrace.retry_budget import RetryBudget
from hypothesis import given
from hypothesis import strategies as st


def taken(budget: RetryBudget, now_s: float = 0) -> int:
    """All retries that it gives now."""
    count = 0
    while budget.take(now_s):
        count += 1
    return count


def test_a_new_client_has_its_reserve() -> None:
    assert taken(RetryBudget(reserve=10)) == 10


@given(st.lists(st.booleans(), max_size=2000))
def test_retries_are_a_tenth_of_the_requests_at_most_but_for_the_reserve(turns: list[bool]) -> None:
    budget, requests, retries = RetryBudget(reserve=10, refill_per_s=0), 0, 0
    for is_request in turns:
        if is_request:
            budget.pay_in()
            requests += 1
        else:
            retries += budget.take(0)
        assert retries <= 10 + 0.1 * requests + 1e-6


def test_time_brings_back_the_reserve_and_no_more() -> None:
    budget = RetryBudget(reserve=5, refill_per_s=0.1)
    assert taken(budget) == 5
    assert taken(budget, now_s=30) == 3
    assert taken(budget, now_s=1_000_000) == 5


def test_a_long_good_time_saves_up_no_storm() -> None:
    budget = RetryBudget(most=100)
    for _ in range(1_000_000):
        budget.pay_in()
    assert taken(budget) == 100


def test_what_was_saved_up_does_not_shrink_with_time() -> None:
    budget = RetryBudget(reserve=1)
    for _ in range(100):
        budget.pay_in()
    assert taken(budget, now_s=5) == pytest.approx(11, abs=1)
