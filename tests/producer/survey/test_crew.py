import math

import pytest
from headrace.survey.crew import Crew, Member, Roster
from headrace_contracts import Presence


def beat(worker: str, rate: int | None = None, *, leaving: bool = False) -> Presence:
    return Presence(worker=worker, every_ms=2000, rate=rate, leaving=leaving)


def crew(*rates: int | None, last: int | None = None) -> Crew:
    return Crew(tuple(Member(f"w{number}", rate, 0) for number, rate in enumerate(rates)), last)


@pytest.mark.parametrize(
    ("rates", "together"), [((), None), ((None,), None), ((100, 300), 400), ((100, None, 300), 600)]
)
def test_who_does_not_know_its_rate_counts_as_the_mean_of_those_who_do(
    rates: tuple[int | None, ...], together: int | None
) -> None:
    assert crew(*rates).rate == together


@pytest.mark.parametrize(
    ("there", "tokens", "seconds"),
    [
        (crew(100, 300), 1000, 2.5),
        (crew(100), 0, 0),
        (crew(), 0, 0),
        (crew(last=50), 1000, 20),  # nobody is there now: as long as the last ones would have taken
        (crew(), 1000, math.inf),  # nobody was ever heard
        (crew(None), 1000, None),  # somebody is there, and nobody knows how fast
    ],
)
def test_a_backlog_is_as_many_seconds_as_the_crew_takes_for_it(there: Crew, tokens: int, seconds: float | None) -> None:
    assert there.seconds_for(tokens) == seconds


def test_a_worker_is_gone_after_three_silent_intervals_and_its_rate_is_remembered() -> None:
    roster = Roster()
    roster.listen(0)
    roster.hear("m", beat("a", 100), 1)
    roster.hear("m", beat("b", 200), 2)
    assert [member.worker for member in roster.crews(["m"], 6.9)["m"].members] == ["a", "b"]
    assert roster.crews(["m"], 7)["m"] == Crew((Member("b", 200, 5),), 200)
    assert roster.crews(["m"], 8)["m"] == Crew((), 200)


def test_a_worker_that_leaves_is_gone_at_once() -> None:
    roster = Roster()
    roster.hear("m", beat("a", 100), 1)
    roster.hear("m", beat("a", leaving=True), 2)
    assert roster.crews(["m"], 2)["m"].members == ()


def test_nobody_is_missed_before_everybody_had_the_time_to_speak() -> None:
    roster = Roster(listen_s=3)
    assert roster.missing_s(10) == 3
    roster.listen(10)
    assert roster.missing_s(11) == 2
    assert roster.missing_s(13) == 0


def test_after_a_reconnection_all_have_the_time_to_speak_again() -> None:
    roster = Roster(listen_s=3)
    roster.listen(0)
    roster.hear("m", beat("a", 100), 5)
    roster.listen(10)
    assert roster.missing_s(10) == 3
    assert [member.worker for member in roster.crews(["m"], 10.5)["m"].members] == ["a"]


def test_a_model_that_nobody_serves_or_asks_for_is_forgotten() -> None:
    roster = Roster()
    roster.hear("m", beat("a", 100), 1)
    assert roster.crews([], 2).keys() == {"m"}
    assert roster.crews([], 60) == {}
    assert roster.crews(["m"], 60)["m"].last_rate is None
