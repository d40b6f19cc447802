"""Repetition keeps to its budget, and order statistics are those of the numbers."""

import pytest
from timing import Spread, durations_ms, repeat


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands at its only element."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def test_a_spread_is_in_order() -> None:
    assert Spread.of([float(value) for value in range(101)]) == Spread(
        num=101, min_ms=0, p50_ms=50, p90_ms=90, p99_ms=99
    )


def test_a_fast_case_runs_for_its_budget(clock: list[float]) -> None:
    def run() -> None:
        clock[0] += 0.125

    assert durations_ms(run, 1) == [125] * 8


def test_a_slow_case_runs_five_times(clock: list[float]) -> None:
    def run() -> None:
        clock[0] += 3

    assert repeat(run, 1) == Spread(num=5, min_ms=3000, p50_ms=3000, p90_ms=3000, p99_ms=3000)
    assert clock == [18]  # one of them to warm up


def test_a_very_slow_case_gets_fewer_runs(clock: list[float]) -> None:
    def run() -> None:
        clock[0] += 100

    assert repeat(run, 1).num == 1
