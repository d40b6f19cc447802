import pytest
from headrace_workers.admission import Admission
from headrace_workers.config import WorkerConfig
from headrace_workers.fleet import View

from ..producer.specs import scorer

MIB = 1024 * 1024


def admission(**changes: object) -> Admission:
    settings = {"queue_s": 2.0, "max_bytes": 0, "max_msg_size": 9124, "share": 1.0} | changes
    return Admission(**settings)  # type: ignore[arg-type]


def fleet(rate: int | None, workers: int = 2) -> View:
    return View(workers=tuple(f"w{number}" for number in range(workers)), rate=rate, sets_limits=True)


def test_the_limit_is_seconds_of_the_fleets_work_as_bytes() -> None:
    limit = admission().limit(fleet(100_000), 8.0)
    assert limit is not None
    assert limit.max_bytes == 1_600_000
    assert limit.reason == "2 s of 2 workers that do 100,000 tokens/s, at 8.0 bytes a token"


def test_twice_the_rate_or_twice_the_seconds_are_twice_the_bytes() -> None:
    once = admission().limit(fleet(50_000), 8.0)
    faster = admission().limit(fleet(100_000), 8.0)
    longer = admission(queue_s=4).limit(fleet(50_000), 8.0)
    assert once is not None
    assert faster is not None
    assert longer is not None
    assert faster.max_bytes == longer.max_bytes == 2 * once.max_bytes


@pytest.mark.parametrize(
    ("shards", "queues", "wanted"),
    [(1, 1, 1_600_000), (2, 1, 800_000), (1, 2, 800_000), (1, 4, 800_000), (3, 4, 266_667)],
)
def test_what_one_tenant_may_queue_is_shared_by_the_shards_and_its_two_queues_of_each(
    shards: int, queues: int, wanted: int
) -> None:
    spec = scorer(shards=shards, queues=queues)
    limit = Admission.of(spec, WorkerConfig()).limit(fleet(100_000), 8.0)
    assert limit is not None
    assert limit.max_bytes == wanted


def test_a_queue_is_no_longer_than_half_of_what_callers_wait_for() -> None:
    limits = [admission().limit(fleet(100_000), 8.0, patience_s) for patience_s in (30, 4, 1)]
    assert [limit and limit.max_bytes for limit in limits] == [1_600_000, 1_600_000, 400_000]


def test_while_no_rate_is_known_what_stands_may_stay() -> None:
    assert admission().limit(fleet(None), 8.0) is None


@pytest.mark.parametrize(("max_msg_size", "least"), [(1000, 16_384), (100_000, 200_000)])
def test_it_is_never_less_than_a_few_of_the_largest_chunks(max_msg_size: int, least: int) -> None:
    limit = admission(max_msg_size=max_msg_size).limit(fleet(0), 8.0)
    assert limit is not None
    assert limit.max_bytes == least
    assert "the least; 2 s of" in limit.reason


def test_it_is_never_more_than_the_broker_should_keep_in_memory() -> None:
    limit = admission().limit(fleet(2**63 - 1), 330.0)
    assert limit is not None
    assert limit.max_bytes == 64 * MIB
    assert "the most; 2 s of" in limit.reason


def test_what_is_fixed_by_hand_counts_whatever_the_fleet_does() -> None:
    for rate in (None, 0, 10**9):
        limit = admission(max_bytes=123_456).limit(fleet(rate), 8.0)
        assert limit is not None
        assert (limit.max_bytes, limit.reason) == (123_456, "set by --online-max-bytes")


@pytest.mark.parametrize(
    ("present", "wanted", "changes"),
    [
        (100_000, 100_000, False),
        (100_000, 119_999, False),
        (100_000, 80_001, False),
        (100_000, 120_001, True),
        (100_000, 79_999, True),
        (-1, 100_000, True),
        (0, 100_000, True),
    ],
)
def test_small_differences_are_left_alone(present: int, wanted: int, changes: bool) -> None:
    assert admission().is_worth_while(present, wanted) is changes


def test_a_limit_fixed_by_hand_is_kept_to_the_byte() -> None:
    assert admission(max_bytes=100_000).is_worth_while(100_001, 100_000)
    assert not admission(max_bytes=100_000).is_worth_while(100_000, 100_000)
