"""Leases: what one process makes of the beats of others."""

from headrace.bulk.jobs.leases import Leases
from headrace.bulk.jobs.record import Checkpoint, Owner, ShardRecord

OWNER = Owner("ab", "mill", 42)


def shard(beat: int, *, term: int = 1, number: int = 0) -> ShardRecord:
    return ShardRecord(number, OWNER, beat, Checkpoint(), term)


def has_run_out(leases: Leases, record: ShardRecord, now_s: float, *, life: int = 1, is_blind: bool = False) -> bool:
    return leases.has_run_out(record, now_s, life=life, is_blind=is_blind)


def test_a_lease_runs_out_when_its_beat_stands_still_for_its_time() -> None:
    leases = Leases(20)
    assert not has_run_out(leases, shard(3), 100)
    assert not has_run_out(leases, shard(3), 119.9)
    assert leases.next_end_s() == 120
    assert has_run_out(leases, shard(3), 120)


def test_each_beat_gives_it_its_full_time_again() -> None:
    leases = Leases(20)
    for beat in range(10):
        assert not has_run_out(leases, shard(beat), 100 + 19 * beat)
    assert not has_run_out(leases, shard(9, term=2), 100 + 19 * 10)
    assert leases.next_end_s() == 310


def test_time_in_which_no_beat_could_be_seen_does_not_count() -> None:
    leases = Leases(20)
    assert not has_run_out(leases, shard(3), 100)
    assert not has_run_out(leases, shard(3), 150, is_blind=True)
    assert not has_run_out(leases, shard(3), 160)
    assert not has_run_out(leases, shard(3), 170, life=2)
    assert not has_run_out(leases, shard(3), 189, life=2)
    assert has_run_out(leases, shard(3), 190, life=2)


def test_the_next_end_is_that_of_the_first_among_those_that_are_waited_for() -> None:
    leases = Leases(20)
    assert leases.next_end_s() is None
    for number in range(3):
        has_run_out(leases, shard(0, number=number), 100 + number)
    leases.forget(0)
    leases.forget(7)
    assert leases.next_end_s() == 121
