"""Ratios are fair: oriented, reciprocal, and never to a peer whose rows are wrong."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reporting.ratios import FIELDS, behind, best, entries, names, ratio, standings
from result import Entry, Suite
from timing import Spread

from .results import changed, in_float16, result, without_peers

MS = st.floats(0.01, 1e5)
ROUNDS = st.lists(MS, min_size=3, max_size=7)
LATENCY, RATES = result().suites[0], result().suites[3]


def entry(name: str, rounds: list[float]) -> Entry:
    took = Spread.of(rounds)
    return Entry(
        contender=name,
        divergence=0,
        is_right=True,
        took=took,
        rounds_ms=tuple(rounds),
        rounds_per_s=tuple(1000 / ms for ms in rounds),
        per_s=1000 / took.p50_ms,
    )


@given(st.lists(st.tuples(MS, MS), min_size=1, max_size=7), st.sampled_from([LATENCY, RATES]))
def test_changing_places_gives_the_reciprocal(rounds: list[tuple[float, float]], suite: Suite) -> None:
    one, other = (entry(name, [pair[at] for pair in rounds]) for at, name in enumerate("ab"))
    there, back = ratio(one, other, suite), ratio(other, one, suite)
    assert there.value * back.value == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.low <= there.value <= there.high


@given(ROUNDS, st.floats(1.05, 50), st.sampled_from([LATENCY, RATES]))
def test_more_than_one_is_faster_whatever_the_machine_does_between_rounds(
    rounds: list[float], factor: float, suite: Suite
) -> None:
    fast, slow = entry("fast", rounds), entry("slow", [factor * ms for ms in rounds])
    assert ratio(fast, slow, suite).value == pytest.approx(factor)
    assert ratio(fast, slow, suite).verdict == "ahead"
    assert ratio(slow, fast, suite).verdict == "behind"


@given(ROUNDS)
def test_nobody_is_ahead_of_itself(rounds: list[float]) -> None:
    assert ratio(entry("a", rounds), entry("b", rounds), LATENCY).verdict == "level"


def test_few_rounds_need_a_larger_difference() -> None:
    assert ratio(entry("a", [10, 10]), entry("b", [10.5, 10.5]), LATENCY).verdict == "level"
    assert ratio(entry("a", [10, 10]), entry("b", [12, 12]), LATENCY).verdict == "ahead"
    assert ratio(entry("a", [10, 10, 10]), entry("b", [10.5, 10.5, 10.5]), LATENCY).verdict == "ahead"


def test_rates_are_compared_by_the_rates_of_the_rounds_whatever_a_median_call_took() -> None:
    steady = entry("steady", [10, 10, 10])
    hogged = replace(entry("hogged", [20, 20, 20]), rounds_ms=(1, 1, 1))
    assert ratio(steady, hogged, RATES).value == pytest.approx(2)
    assert ratio(steady, hogged, RATES).verdict == "ahead"


def test_rounds_that_disagree_are_level() -> None:
    found = ratio(entry("a", [10, 10, 10]), entry("b", [13, 13, 9.9]), LATENCY)
    assert found.value == pytest.approx(1.3)
    assert found.verdict == "level"


def test_one_round_has_no_spread() -> None:
    found = ratio(entry("a", [10]), entry("b", [20]), LATENCY)
    assert found.low == found.value == found.high == 2


def test_without_rounds_the_medians_are_compared() -> None:
    one, other = (replace(entry(name, [ms]), rounds_ms=(), rounds_per_s=()) for name, ms in (("a", 10.0), ("b", 5.0)))
    assert ratio(one, other, LATENCY).value == 0.5


@given(st.lists(st.tuples(MS, st.booleans()), min_size=1, max_size=6), st.sampled_from([LATENCY, RATES]))
def test_the_best_is_the_fastest_of_those_that_are_right(peers: list[tuple[float, bool]], suite: Suite) -> None:
    rows = [replace(entry(f"p{at}", [ms]), is_right=right) for at, (ms, right) in enumerate(peers)]
    found = best(rows, suite)
    right = [ms for ms, is_right in peers if is_right]
    assert (found is None) == (not right)
    if found and found.took:
        assert found.is_right
        assert found.took.p50_ms == pytest.approx(min(right))


@pytest.mark.parametrize("changes", [{"is_right": False, "divergence": 0.5}, {"took": None, "reason": "it hung"}])
def test_a_peer_that_is_wrong_or_broke_off_is_in_no_ratio(changes: dict[str, object]) -> None:
    found = changed(result(), "openvino-bf16", 0, 2, **changes)
    mine = [each for each in standings(found) if each.case.name == "512 tokens"]
    assert len(mine) == 3
    assert all(each.peer != "openvino-bf16" for standing in mine for each in standing.ratios)
    assert mine[0].best
    assert mine[0].best.peer == "openvino"


def test_ours_that_is_wrong_has_no_ratio() -> None:
    found = changed(result(), "headrace", 0, 2, is_right=False, divergence=0.5)
    standing = next(each for each in standings(found) if each.case.name == "512 tokens")
    assert standing.ours is None
    assert standing.best is None
    assert standing.verdict is None
    assert standing.decisive is None


def test_every_case_is_compared_in_every_field_and_with_its_like() -> None:
    found = result()
    seen = [(each.suite.name, each.case.name, each.field) for each in standings(found)]
    assert sorted(seen) == sorted(
        (suite.name, case.name, field) for suite in found.suites for case in suite.cases for field in FIELDS
    )
    servers = {each.name for each in found.contenders if each.is_server}
    for standing in standings(found):
        peers = {each.peer for each in standing.ratios}
        assert standing.ours
        assert (standing.ours.contender in servers) == (standing.field != "library")
        assert peers <= servers if standing.field == "server" else peers - servers
        assert not peers & {each.name for each in found.contenders if each.is_ours}


def test_the_best_peer_comes_first_and_the_verdict_is_of_all() -> None:
    for standing in standings(result()):
        assert standing.best
        peer = best(entries(standing.case, frozenset(each.peer for each in standing.ratios)), standing.suite)
        assert peer
        assert standing.best.peer == peer.contender
        if standing.verdict == "ahead":
            assert all(each.low > 1 for each in standing.ratios)


def test_behind_names_every_peer_that_is_faster_and_no_other() -> None:
    found = list(behind(result()))
    assert {each.peer for standing, each in found if standing.field == "library"} == {"openvino-bf16"}
    assert all(each.high < 1 for _, each in found)
    assert not {each.peer for standing, each in found if standing.field == "all"} & names(
        result(), "server", ours=False
    )


def test_without_peers_there_are_standings_but_no_ratios() -> None:
    found = list(standings(without_peers(result())))
    assert found
    assert all(each.ours and not each.ratios for each in found)
    assert {each.field for each in found} == {"library", "server"}


def test_the_middle_of_an_even_number_of_rounds_is_geometric() -> None:
    found = ratio(entry("a", [1, 1]), entry("b", [2, 8]), LATENCY)
    assert found.value == pytest.approx(math.sqrt(16))


@pytest.mark.parametrize("factor", [0.5, 1.9])
def test_ours_in_float32_stands_for_nobody_and_is_no_peer_however_fast_it_is(factor: float) -> None:
    found = list(standings(in_float16(result(), factor)))
    before = list(standings(result()))
    assert [(each.field, each.ratios, each.ours) for each in found] == [
        (each.field, each.ratios, each.ours) for each in before
    ]


def test_ours_in_float32_does_not_step_in_where_ours_is_wrong() -> None:
    found = changed(in_float16(result()), "headrace", 0, 2, is_right=False, divergence=0.5)
    standing = next(each for each in standings(found) if each.case.name == "512 tokens")
    assert standing.ours is None
    assert not standing.ratios


def test_ours_in_float32_is_compared_where_only_that_was_asked_for() -> None:
    found = in_float16(result())
    contenders = tuple(
        replace(each, status="unasked") if each.name == "headrace" else each for each in found.contenders
    )
    assert names(replace(found, contenders=contenders), "library", ours=True) == {"headrace-fp32"}
    assert names(found, "library", ours=True) == {"headrace"}
