"""The law of a step, fitted."""

import random
from dataclasses import replace

import pytest
from headrace_workers.calibration.cost import Cost, Point, fit
from hypothesis import given
from hypothesis import strategies as st

from .calibrations import LAW, points

LAWS = [
    LAW,
    Cost(a_ms=0, b_ms=0.15, c_ms=5e-5),
    Cost(a_ms=3, b_ms=0, c_ms=5e-5),
    Cost(a_ms=3, b_ms=0.15, c_ms=0),
    Cost(a_ms=1.2, b_ms=0.0015, c_ms=3e-7),
    Cost(a_ms=25, b_ms=0, c_ms=0),
]


def numbers(law: Cost) -> tuple[float, float, float]:
    return law.a_ms, law.b_ms, law.c_ms


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("max_length", [64, 256, 8192])
def test_a_law_that_is_kept_to_the_letter_is_found_exactly(law: Cost, max_length: int) -> None:
    found = fit(points(law, max_length=max_length))
    assert numbers(found) == pytest.approx(numbers(law), rel=1e-6, abs=1e-9)
    assert found.worst_error < 1e-6


def test_a_law_under_noise_is_found_nearly_and_the_noise_is_told() -> None:
    found = fit(points(LAW, noise=0.05, max_length=4096, limit_ms=3000))
    assert numbers(found) == pytest.approx(numbers(LAW), rel=0.1)
    assert found.full_step_ms(512, 256) == pytest.approx(LAW.full_step_ms(512, 256), rel=0.1)
    assert 0.01 < found.median_error < 0.08
    assert found.worst_error > found.median_error


def test_one_outlier_bends_nothing_but_is_told() -> None:
    measured = list(points(LAW, noise=0.01))
    calm = fit(measured)
    measured[7] = replace(measured[7], ms=10 * measured[7].ms)
    found = fit(measured)
    for tokens, length in ((64, 16), (512, 64), (2048, 256)):
        assert found.full_step_ms(tokens, length) == pytest.approx(calm.full_step_ms(tokens, length), rel=0.03)
    assert found.worst_error > 0.8


times = st.floats(0.01, 1e5)
counts = st.integers(1, 1000)


@given(st.lists(st.tuples(counts, st.integers(1, 8192), times), min_size=1, max_size=30))
def test_no_part_of_the_law_is_ever_negative_whatever_is_measured(batches: list[tuple[int, int, float]]) -> None:
    measured = [
        Point(kind="", num_sequences=n, num_tokens=n * length, num_squares=n * length**2, longest=length, ms=ms)
        for n, length, ms in batches
    ]
    assert min(numbers(fit(measured))) >= 0


def test_the_order_of_the_points_does_not_matter() -> None:
    measured = list(points(LAW, noise=0.05))
    shuffled = random.Random(1).sample(measured, len(measured))  # noqa: S311 - an order, not a secret
    assert numbers(fit(measured)) == pytest.approx(numbers(fit(shuffled)), rel=1e-6)


def test_nothing_and_no_time_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="0 points cannot be fitted"):
        fit([])
    with pytest.raises(ValueError, match="each of more than 0 ms"):
        fit([replace(points(LAW)[0], ms=0.0)])


def test_a_full_step_of_the_longest_takes_no_less_than_any_other_of_its_tokens() -> None:
    for lengths in ((256, 256), (100,) * 5 + (12,), (1,) * 512):
        assert sum(lengths) == 512
        squares = sum(length**2 for length in lengths)
        assert LAW.step_ms(512, squares) <= LAW.full_step_ms(512, 256)
