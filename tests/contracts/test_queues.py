from collections import Counter
from itertools import combinations

from headrace_contracts.queues import hand
from hypothesis import given
from hypothesis import strategies as st


@given(st.none() | st.text(max_size=64), st.integers(2, 64))
def test_a_tenant_has_two_queues_that_are_always_the_same(tenant: str | None, queues: int) -> None:
    first, second = hand(tenant, queues)
    assert first != second
    assert {first, second} <= set(range(queues))
    assert hand(tenant, queues) == (first, second)


def test_where_there_is_one_queue_all_have_it() -> None:
    assert {hand(tenant, 1) for tenant in (None, "a", "b")} == {(0,)}


def test_the_queues_are_those_of_the_contract() -> None:
    assert [hand(tenant, 4) for tenant in (None, "search", "re-index", "tenant-1")] == [
        (0, 1),
        (3, 2),
        (2, 1),
        (3, 1),
    ]


def test_tenants_are_spread_evenly_and_few_share_both_queues() -> None:
    hands = [hand(f"tenant-{n}", 4) for n in range(1200)]
    assert all(270 <= count <= 330 for count in Counter(first for first, _ in hands).values())
    same = sum(set(one) == set(other) for one, other in combinations(hands[:300], 2))
    assert same <= 0.2 * 300 * 299 / 2
