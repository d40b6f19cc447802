from dataclasses import dataclass

import pytest
from headrace_contracts import Priority
from headrace_workers.schedule import Scheduler
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True, eq=False)
class Item:
    num_tokens: int
    tenant: str = ""
    job: str | None = None


STEP = 100


def scheduler(floor: float = 0.1) -> Scheduler[Item]:
    return Scheduler(STEP, floor)


def run_step(queues: Scheduler[Item]) -> tuple[Item, ...]:
    plan = queues.plan()
    assert plan is not None
    queues.take(plan)
    return plan.works


def test_nothing_queued_gives_no_plan() -> None:
    assert scheduler().plan() is None


def test_first_come_is_first_served_inside_a_class() -> None:
    queues, items = scheduler(), [Item(40) for _ in range(5)]
    for item in items:
        queues.push("online", item)
    assert run_step(queues) == tuple(items[:2])
    assert run_step(queues) == tuple(items[2:4])
    assert run_step(queues) == (items[4],)


def test_a_small_item_does_not_overtake_a_large_one_of_its_class() -> None:
    queues, large, first, small = scheduler(), Item(90), Item(20), Item(5)
    for item in (first, large, small):
        queues.push("online", item)
    assert run_step(queues) == (first,)
    assert run_step(queues) == (large, small)


def test_a_step_that_online_waits_for_is_not_filled_up_with_batch() -> None:
    queues, batch, online = scheduler(), [Item(30) for _ in range(4)], Item(50)
    for item in batch:
        queues.push("batch", item)
    queues.push("online", online)
    assert run_step(queues) == (online,)
    assert run_step(queues) == tuple(batch[:3])


def test_the_room_that_online_leaves_is_batchs_in_a_step_of_its_own() -> None:
    queues, batch = scheduler(0), [Item(50) for _ in range(9)]
    for item in batch:
        queues.push("batch", item)
    steps = []
    for _ in range(6):
        queues.push("online", Item(40))
        steps.append(sum(item.num_tokens for item in run_step(queues)))
    # Two steps leave 120 of 200 tokens: batch has a step, and two online items wait behind it.
    assert steps == [40, 40, 100, 80, 40, 40]


def test_room_that_online_only_could_not_fill_is_not_batchs() -> None:
    queues = scheduler(0)
    for _ in range(40):
        queues.push("online", Item(60, "online"))
        queues.push("batch", Item(30, "batch"))
    assert [[item.tenant for item in run_step(queues)] for _ in range(30)] == [["online"]] * 30


def test_online_that_leaves_no_room_gives_batch_its_floor_alone() -> None:
    queues = scheduler(0.1)
    for _ in range(400):
        queues.push("online", Item(10, "online"))
        queues.push("batch", Item(10, "batch"))
    steps = [[item.tenant for item in run_step(queues)] for _ in range(30)]
    assert all(step.count("online") >= 9 for step in steps)
    assert sum(step.count("batch") for step in steps) in {29, 30}


def test_a_query_shares_no_step_with_parts_of_a_large_call() -> None:
    queues, query = scheduler(), Item(3)
    for _ in range(10):
        queues.push("online", Item(50, job="large"))
    assert [item.job for item in run_step(queues)] == ["large", "large"]
    queues.push("online", query)
    assert run_step(queues) == (query,)
    assert [item.job for item in run_step(queues)] == ["large", "large"]


def test_planning_takes_nothing_and_is_repeatable() -> None:
    queues = scheduler()
    queues.push("batch", Item(10))
    assert queues.plan() == queues.plan()
    assert queues.num_queued("batch") == 1


def test_an_online_arrival_changes_the_plan_and_joins_the_next_step() -> None:
    queues, batch, online = scheduler(), Item(100), Item(10)
    queues.push("batch", batch)
    early = queues.plan()
    queues.push("online", online)
    assert queues.plan() != early
    assert run_step(queues) == (online,)


def test_an_arrival_behind_a_full_step_leaves_the_plan_as_it_is() -> None:
    queues = scheduler()
    queues.push("batch", Item(100))
    early = queues.plan()
    queues.push("batch", Item(100))
    assert queues.plan() == early


def test_work_larger_than_a_step_is_refused_instead_of_waiting_for_ever() -> None:
    with pytest.raises(ValueError, match="101 tokens cannot run in steps of 100"):
        scheduler().push("online", Item(101))


def test_parts_of_a_failed_step_run_alone_and_let_others_in_between() -> None:
    queues, halves = scheduler(), ((Item(1), Item(2)), (Item(3),))
    queues.push("online", Item(10))
    for half in halves:
        queues.push_apart(half)
    assert run_step(queues) == halves[0]
    assert [item.num_tokens for item in run_step(queues)] == [10]
    assert run_step(queues) == halves[1]


def test_suspects_take_turns_with_the_rest_and_are_dropped_like_it() -> None:
    queues, online = scheduler(), [Item(60) for _ in range(3)]
    for number in range(4):
        queues.push_apart((Item(number + 1),))
    for item in online:
        queues.push("online", item)
    assert [item.num_tokens for item in queues.drop(lambda item: item.num_tokens == 1)] == [1]
    assert [[item.num_tokens for item in run_step(queues)] for _ in range(6)] == [[2], [60], [3], [60], [4], [60]]


def test_unwanted_work_is_taken_out_and_the_rest_keeps_its_order() -> None:
    queues, items = scheduler(), [Item(10), Item(20), Item(30)]
    for item in items:
        queues.push("online", item)
    assert queues.drop(lambda item: item.num_tokens == 20) == [items[1]]
    assert queues.drop(lambda item: item.num_tokens == 20) == []
    assert run_step(queues) == (items[0], items[2])


def test_what_was_planned_and_is_unwanted_since_is_in_no_later_plan() -> None:
    queues, items = scheduler(), [Item(10), Item(20)]
    queues.push("online", items[0])
    queues.push("batch", items[1])
    early = queues.plan()
    assert queues.drop(lambda item: item is items[0]) == [items[0]]
    assert queues.plan() != early
    assert run_step(queues) == (items[1],)


def test_clear_returns_all_that_is_queued() -> None:
    queues = scheduler()
    queues.push("online", Item(1))
    queues.push("batch", Item(2))
    queues.push_apart((Item(3), Item(4)))
    assert sorted(item.num_tokens for item in queues.clear()) == [1, 2, 3, 4]
    assert queues.plan() is None


@given(
    floor=st.sampled_from([0.05, 0.1, 0.3]),
    online=st.lists(st.integers(1, STEP), min_size=1, max_size=8),
    batch=st.lists(st.integers(1, STEP), min_size=1, max_size=8),
)
def test_batch_gets_its_floor_under_constant_online_load(floor: float, online: list[int], batch: list[int]) -> None:
    """Over any run of steps, batch lags behind its share by no more than two steps' worth."""
    queues = scheduler(floor)
    used: dict[Priority, int] = {"online": 0, "batch": 0}
    kind: dict[Item, Priority] = {}

    def feed(priority: Priority, sizes: list[int], times: int) -> None:
        for _ in range(times):
            for size in sizes:
                item = Item(size)
                kind[item] = priority
                queues.push(priority, item)

    # Enough of both that neither queue runs dry.
    feed("online", online, 2 * STEP // sum(online) + 1)
    feed("batch", batch, 60 * STEP // sum(batch) + 1)
    for _ in range(60):
        for item in run_step(queues):
            used[kind[item]] += item.num_tokens
        assert used["batch"] >= floor * sum(used.values()) - 2 * STEP
        feed("online", online, STEP // sum(online) + 1)


@given(online=st.lists(st.integers(1, STEP), min_size=1, max_size=12), backlog=st.integers(1, STEP))
def test_online_work_waits_for_at_most_one_step_of_batch(online: list[int], backlog: int) -> None:
    """Whatever batch is owed, the first online item is in the next step or the one after."""
    queues = scheduler(0.3)
    for _ in range(50):
        queues.push("batch", Item(backlog))
    for size in online:
        first = Item(size)
        queues.push("online", first)
        assert first in run_step(queues) or first in run_step(queues)


@given(
    st.lists(st.tuples(st.sampled_from(["online", "batch"]), st.integers(1, STEP)), max_size=40),
    st.sampled_from([0.0, 0.1, 0.9]),
)
def test_every_item_runs_exactly_once_and_no_step_exceeds_its_budget(
    arrivals: list[tuple[Priority, int]], floor: float
) -> None:
    queues = scheduler(floor)
    ran: list[Item] = []
    items = [Item(size) for _, size in arrivals]
    for (priority, _), item in zip(arrivals, items, strict=True):
        queues.push(priority, item)
    while queues.plan() is not None:
        step = run_step(queues)
        assert sum(item.num_tokens for item in step) <= STEP
        ran += step
    assert sorted(map(id, ran)) == sorted(map(id, items))
