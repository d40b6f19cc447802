"""What online traffic shows: verdicts hold and fail where they must, whatever the numbers are."""

import json
import math
import os
from collections.abc import Sequence

import pytest
from economics.meter import Reading
from headrace_contracts.queues import hand
from online import behind, fairness, floor, gateway, overload, recovery
from online.call import Call, Kind
from online.capacity import Capacity
from online.cores import Cores, on
from online.finding import Figure, Finding, Verdict, p50_ms, p99_ms
from online.memory import Memory, allowed, thirds
from online.overload import Measured
from online.plan import Ran, When
from online.report import number


def every(seconds: float, count: int, took_ms: float, kind: Kind = "answered", first_s: float = 0) -> list[Call]:
    """Calls at even distances, of ten tokens each."""
    tokens = 10 if kind == "answered" else 0
    return [Call(first_s + index * seconds, 0, took_ms, kind, tokens, 20) for index in range(count)]


def ran(calls: Sequence[Call]) -> Ran:
    return Ran(offered=len(calls), calls=calls, cores=0.5)


def failing(finding: Finding) -> set[str]:
    return {verdict.what for verdict in finding.verdicts if not verdict.holds}


@pytest.mark.parametrize(
    ("found", "sense", "holds"),
    [(2, "at most", True), (2.1, "at most", False), (2, "at least", True), (1.9, "at least", False)],
)
def test_a_verdict_holds_up_to_its_limit(found: float, sense: str, holds: bool) -> None:
    assert Verdict(what="it", found=found, limit=2, sense=sense).holds is holds  # type: ignore[arg-type] # parametrised


@pytest.mark.parametrize("sense", ["at most", "at least"])
def test_what_is_no_number_holds_no_verdict(sense: str) -> None:
    assert not Verdict(what="it", found=math.nan, limit=2, sense=sense).holds  # type: ignore[arg-type] # parametrised
    assert math.isnan(p99_ms([]))
    assert math.isnan(p50_ms([]))
    assert Figure.spread("of none", []) == []


def test_a_part_fails_by_a_verdict_or_by_breaking_and_not_by_being_left_out() -> None:
    bad = Verdict(what="it", found=3, limit=2, sense="at most")
    assert Finding(part="p", what="w", verdicts=[bad]).fails
    assert Finding(part="p", what="w", broke="the worker ended").fails
    assert not Finding(part="p", what="w", not_run="there is no gateway").fails


def test_recovery_is_the_first_of_two_good_windows() -> None:
    calls = [*every(0.1, 5, 900, first_s=10), *every(0.1, 5, 5, first_s=10.5), *every(0.1, 5, 900, first_s=11)]
    calls += every(0.1, 10, 5, first_s=11.5)
    after = recovery.windows(calls, 10, 12.6)
    assert [len(window) for window in after] == [5, 5, 5, 5, 5]
    assert recovery.recovered_after_s(after, 6) == 1.5
    assert recovery.recovered_after_s(after, 1000) == 0
    assert recovery.recovered_after_s(after, 4) is None


def test_a_window_with_a_refusal_or_without_a_call_is_not_good() -> None:
    refused = [*every(0.1, 4, 5), *every(0.1, 1, 1, "refused", first_s=0.4)]
    assert recovery.recovered_after_s(recovery.windows([*refused, *every(0.1, 10, 5, first_s=0.5)], 0, 1.5), 6) == 0.5
    assert recovery.recovered_after_s([[], []], 6) is None


def test_the_worst_idle_window_is_the_bound() -> None:
    idle = recovery.windows([*every(0.1, 5, 5), *every(0.1, 5, 9, first_s=0.5)], 0, 1.5)
    assert recovery.worst_p99_ms(idle) == 9


def test_memory_is_compared_by_its_thirds_and_sampled_from_real_processes() -> None:
    assert thirds([1, 2, 3, 50, 50, 50, 7, 8, 9]) == (2, 8)
    assert thirds([4]) == (4, 4)
    assert 100 < allowed(100) < 120
    memory = Memory({"this": os.getpid()})
    memory.sample()
    assert memory.mib["this"][0] > 1


def test_a_worker_has_its_own_cores_where_there_are_two() -> None:
    assert Cores.of((3, 1)) == Cores((1,), (3,))
    assert Cores.of(range(5)) == Cores((0, 1, 2), (3, 4))
    assert Cores.of((0, 1)).are_split
    assert Cores.of((0,)) == Cores((0,), (0,))
    assert not Cores.of((0, 1), split=False).are_split


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinities")
def test_a_process_computes_on_given_cores_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with on((min(before),)):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def seen(heavy: list[Call], light: list[Call], memory: Sequence[float] = (100.0,) * 9, left: int = 0) -> Measured:
    """An overload from second 10 to 20 on a fleet that can do 100 calls of ten tokens a second."""
    watched = Memory({})
    watched.mib["worker"] = list(memory)
    return Measured(
        capacity=Capacity(calls_per_s=100, tokens_per_s=1000, callers=32, client_cores=0.3, worker_cores=1.0),
        deadline_s=2,
        wanted_rate=500,
        when=When(begin_s=10, seconds=10),
        heavy=[ran(heavy)],
        light=light,
        light_from_s=5,
        memory=watched,
        used=Reading(10, {"worker": 9.5}),
        left=left,
    )


LIGHT = every(0.02, 1250, 5, first_s=5)
ANSWERED = every(0.0105, 950, 400, first_s=9.6 + 0.4)
REFUSED = every(0.0025, 4000, 3, "refused", first_s=10)


def test_an_overload_that_is_turned_away_at_once_holds_every_verdict() -> None:
    finding = overload.finding(seen([*ANSWERED, *REFUSED], LIGHT))
    assert failing(finding) == set()
    values = {(figure.what, figure.unit): figure.value for figure in finding.figures}
    assert values["offered", "calls"] == 4950
    assert values["refused, p99", "ms"] == 3
    assert values["worker kept busy", "cores"] == 0.95
    assert finding.series["MiB of worker"] == [100.0] * 9


def test_an_overload_that_queues_fails_by_goodput_by_deadlines_and_by_recovery() -> None:
    expired = every(0.0025, 4000, 2001, "expired", first_s=10)
    slow = [*every(0.02, 250, 5, first_s=5), *every(0.02, 1000, 2000, "expired", first_s=10)]
    finding = overload.finding(seen([*every(0.01, 500, 1900, first_s=10), *expired], slow))
    assert failing(finding) == {
        "offered, of what was to be",
        "goodput, of capacity",
        "p99 of accepted",
        "recovery of the light load",
    }


def test_an_overload_fails_by_memory_that_grows_by_calls_that_fail_and_by_what_stays_behind() -> None:
    heavy = [*ANSWERED, *REFUSED, *every(0.1, 3, 1, "failed", first_s=10)]
    finding = overload.finding(seen(heavy, LIGHT, memory=range(100, 190, 10), left=2))
    assert failing(finding) == {
        "calls without an account",
        "chunks left in the queue",
        "memory of worker, last third",
    }


@pytest.mark.parametrize(("took_ms", "holds"), [(29, True), (31, False)])
def test_a_query_may_wait_for_the_step_that_runs_and_no_more(took_ms: float, holds: bool) -> None:
    when = When(begin_s=0, seconds=10)
    beside = behind.Seen(
        idle=every(0.1, 100, 5), beside=every(0.1, 100, took_ms), heavy=every(0.1, 100, 100), when=when
    )
    assert behind.finding("mix", "it", beside).fails is not holds


def test_a_query_that_is_refused_beside_a_heavy_load_fails() -> None:
    beside = [*every(0.1, 99, 5), *every(0.1, 1, 1, "refused")]
    found = behind.finding(
        "mix",
        "it",
        behind.Seen(idle=every(0.1, 9, 5), beside=beside, heavy=every(1, 5, 9), when=When(begin_s=0, seconds=9)),
    )
    assert failing(found) == {"queries answered"}


@pytest.mark.parametrize(("batch", "missing"), [(10, set()), (5, {"share of batch"}), (200, {"share of online"})])
def test_batch_gets_its_floor_and_online_goes_on(batch: int, missing: set[str]) -> None:
    found = floor.finding(every(0.1, 90, 5), every(9 / batch, batch, 5), When(begin_s=0, seconds=10))
    assert failing(found) == missing


def test_nothing_answered_fails_both_shares() -> None:
    assert failing(floor.finding([], [], When(begin_s=0, seconds=10))) == {"share of batch", "share of online"}


def test_a_modest_tenant_must_be_served_whatever_another_asks_for() -> None:
    alone, burst = ran(every(0.05, 200, 5)), ran([*every(0.01, 500, 900), *every(0.01, 500, 2, "refused")])
    assert not fairness.finding(alone, ran(every(0.05, 200, 60)), burst, 2).fails
    starved = ran([*every(0.05, 100, 1500), *every(0.05, 100, 2001, "expired")])
    assert failing(fairness.finding(alone, starved, burst, 2)) == {
        "modest beside the other, answered",
        "p99 of modest beside the other",
    }


@pytest.mark.parametrize(
    ("http_ms", "live_ms", "missing"),
    [
        (2.9, 4, set()),
        (3.1, 4, {"p50 that HTTP adds"}),
        (2.9, 80, {"p99 of /health/live beside large requests"}),
    ],
)
def test_the_gateway_is_judged_by_what_it_adds_and_by_what_it_holds_up(
    http_ms: float, live_ms: float, missing: set[str]
) -> None:
    found = gateway.finding(
        gateway.Seen(
            library=[every(0.1, 9, 2)] * 3,
            http=[every(0.1, 9, http_ms)] * 3,
            full_library=every(0.1, 9, 8),
            full_http=every(0.1, 9, 12),
            live=every(0.1, 9, live_ms),
            large=every(1, 2, 900),
            errors=[],
        )
    )
    assert failing(found) == missing


def test_a_large_request_is_nearly_as_large_as_the_gateway_takes() -> None:
    body = gateway.large_body(["down the race " * 100, "over the wheel " * 90] * 290)
    assert 1_900_000 < len(body) <= 2_000_000
    assert len(json.loads(body)["input"]) == 580


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.inf, "never"),
        (math.nan, "none"),
        (12345.6, "12,346"),
        (0.98765, "0.988"),
        (7.0, "7"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_are_shown_with_the_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


def test_the_two_tenants_have_one_queue_in_common() -> None:
    assert len({*hand(fairness.MODEST, 4)} & {*hand(fairness.BURST, 4)}) == 1
