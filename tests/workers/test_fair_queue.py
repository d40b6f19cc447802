from collections import Counter
from dataclasses import dataclass

from headrace_workers.fair_queue import FairQueue
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True, eq=False)
class Item:
    num_tokens: int
    tenant: str = ""
    job: str | None = None


STEP = 100
ACTS = ("push", "push", "run", "remove")


def queued(*items: Item, parts_apart: bool = False) -> FairQueue[Item]:
    queue = FairQueue[Item](parts_apart=parts_apart)
    for item in items:
        queue.push(item)
    return queue


def run(queue: FairQueue[Item], room: int = STEP) -> tuple[Item, ...]:
    works = queue.head(room)
    queue.take(works)
    return works


def test_whole_calls_of_a_tenant_run_first_come_first_served() -> None:
    items = [Item(size) for size in (40, 5, 90, 20, 1)]
    queue = queued(*items)
    order: list[Item] = []
    while queue:
        order += run(queue)
    assert order == items


def test_a_query_overtakes_all_parts_of_a_large_call_that_came_before() -> None:
    parts, query = [Item(50, job="large") for _ in range(20)], Item(10)
    queue = queued(*parts)
    assert run(queue) == tuple(parts[:2])
    queue.push(query)
    assert run(queue, 10) == (query,)
    assert run(queue) == tuple(parts[2:4])


def test_queries_and_parts_of_large_calls_share_by_tokens_where_there_are_more_than_enough_of_both() -> None:
    queue = queued(*(Item(30, job="large") for _ in range(100)), *(Item(7) for _ in range(500)))
    ran: Counter[str | None] = Counter()
    for _ in range(20):
        for item in run(queue):
            ran[item.job] += item.num_tokens
    assert abs(ran["large"] - ran[None]) <= 2 * 30


def test_large_calls_are_no_hindrance_to_queries_that_need_less_than_half() -> None:
    queue = queued(*(Item(50, job=str(job)) for job in range(10) for _ in range(40)))
    for _ in range(50):
        queries = [Item(10) for _ in range(4)]
        for query in queries:
            queue.push(query)
        assert set(queries) <= set(run(queue))


def test_queries_do_not_pay_for_the_time_when_no_parts_waited() -> None:
    queue = queued(*(Item(10) for _ in range(100)))
    while queue:
        run(queue)
    part, query = Item(50, job="large"), Item(10)
    queue.push(part)
    queue.push(query)
    assert run(queue) == (query, part)


def test_a_burst_of_one_tenant_comes_behind_a_query_of_another() -> None:
    queue = queued(*(Item(10, "busy") for _ in range(100)))
    run(queue)
    query = Item(10, "quiet")
    queue.push(query)
    assert query in queue.head(2 * 10)


def test_the_parts_of_a_tenant_come_behind_a_query_of_another() -> None:
    queue = queued(*(Item(50, "busy", "large") for _ in range(20)))
    run(queue)
    query = Item(10, "quiet")
    queue.push(query)
    assert queue.head(10) == (query,)


@given(
    sizes=st.lists(st.integers(1, STEP), min_size=2, max_size=5),
    jobs=st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=4),
)
def test_tenants_that_always_have_work_share_by_tokens(sizes: list[int], jobs: list[str | None]) -> None:
    """However large their chunks are, and whether they are whole calls or parts of some."""
    queue = FairQueue[Item]()
    backlog = {str(n): size for n, size in enumerate(sizes)}
    ran: Counter[str] = Counter()
    for turn in range(60):
        for tenant, size in backlog.items():
            while sum(item.num_tokens for item in queue if item.tenant == tenant) < 2 * STEP:
                queue.push(Item(size, tenant, jobs[turn % len(jobs)]))
        for item in run(queue):
            ran[item.tenant] += item.num_tokens
    assert max(ran.values()) - min(ran[tenant] for tenant in backlog) <= 3 * STEP


def test_one_that_has_little_waits_behind_no_more_than_a_chunk_of_each_other_tenant() -> None:
    """A tenant with one chunk at a time among ten that always have a backlog."""
    queue = FairQueue[Item]()
    for turn in range(40):
        for tenant in range(10):
            while sum(item.num_tokens for item in queue if item.tenant == str(tenant)) < 2 * STEP:
                queue.push(Item(20, str(tenant)))
        if turn % 3 == 0:
            query = Item(20, "sparse")
            queue.push(query)
            before = list(queue.head(10_000)).index(query)
            assert before <= 10
        run(queue)


def test_ten_tenants_with_one_chunk_at_a_time_do_not_starve_one_with_a_backlog() -> None:
    queue = queued(*(Item(20, "backlog") for _ in range(400)))
    ran: Counter[str] = Counter()
    for _ in range(100):
        waiting = {item.tenant for item in queue}
        for tenant in range(10):
            if str(tenant) not in waiting:
                queue.push(Item(20, str(tenant)))
        for item in run(queue):
            ran[item.tenant] += item.num_tokens
    assert ran["backlog"] >= 0.7 * ran.total() / 11


def test_parts_share_no_step_with_whole_calls_where_that_is_asked() -> None:
    part, query, another = Item(30, job="large"), Item(10), Item(10)
    queue = queued(part, query, another, parts_apart=True)
    assert [run(queue), run(queue)] == [(query, another), (part,)]


def test_what_is_removed_leaves_the_order_of_the_rest_and_nothing_behind() -> None:
    items = [Item(10, tenant, job) for tenant in ("a", "b") for job in (None, "large", "large")]
    queue = queued(*items)
    queue.remove(items[:2])
    assert sorted(map(id, queue)) == sorted(map(id, items[2:]))
    queue.remove(items[2:])
    assert (len(queue), bool(queue), queue.head(STEP)) == (0, False, ())


@given(
    st.lists(
        st.tuples(st.integers(1, STEP), st.sampled_from("abc"), st.sampled_from([None, "one", "two"]), st.booleans()),
        max_size=40,
    ),
    st.booleans(),
)
def test_each_work_runs_once_and_a_head_is_as_long_as_it_can_be(
    arrivals: list[tuple[int, str, str | None, bool]], parts_apart: bool
) -> None:
    queue = FairQueue[Item](parts_apart=parts_apart)
    items: list[Item] = []
    ran: list[Item] = []
    for size, tenant, job, runs in arrivals:
        item = Item(size, tenant, job)
        items.append(item)
        queue.push(item)
        assert len(queue) == len(items) - len(ran)
        if runs:
            assert queue.head(STEP) == queue.head(STEP)
            ran += run(queue)
    while queue:
        works = run(queue)
        assert 0 < sum(item.num_tokens for item in works) <= STEP
        ran += works
    assert sorted(map(id, ran)) == sorted(map(id, items))


@given(
    st.lists(
        st.tuples(st.integers(1, STEP), st.sampled_from("abc"), st.sampled_from([None, "job"]), st.sampled_from(ACTS))
    )
)
def test_a_queue_knows_its_tokens_and_its_oldest_whatever_comes_and_goes(
    events: list[tuple[int, str, str | None, str]],
) -> None:
    queue = FairQueue[Item]()
    waiting: list[Item] = []  # in order of arrival
    for size, tenant, job, act in events:
        if act == "push":
            waiting.append(Item(size, tenant, job))
            queue.push(waiting[-1])
        elif act == "run":
            gone = run(queue)
            waiting = [item for item in waiting if item not in gone]
        elif waiting:
            queue.remove([waiting.pop(size % len(waiting))])
        assert queue.num_tokens == sum(item.num_tokens for item in waiting)
        assert queue.first if waiting else not queue.first
        assert not waiting or waiting[0] in queue.first
