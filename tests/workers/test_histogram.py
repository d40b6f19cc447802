"""Counts by range, as Prometheus understands them."""

import math

from headrace_workers.histogram import Histogram, Sighting
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.floats(0, 100)))
def test_each_value_lies_in_the_range_that_ends_at_the_first_bound_which_is_no_smaller(values: list[float]) -> None:
    histogram = Histogram((1, 10, 50))
    for value in values:
        histogram.observe(value)
    lower, upper = (-math.inf, 1, 10, 50), (1, 10, 50, math.inf)
    assert histogram.counts == tuple(
        sum(low < value <= high for value in values) for low, high in zip(lower, upper, strict=True)
    )
    assert math.isclose(histogram.sum, sum(values))


def test_a_value_may_count_for_several() -> None:
    histogram = Histogram((1,))
    histogram.observe(0.5, times=3)
    assert (histogram.counts, histogram.sum) == ((3, 0), 1.5)


def test_each_range_remembers_its_last_value_that_had_a_trace() -> None:
    histogram = Histogram((1, 10))
    for value, trace in ((0.5, "a"), (5, "b"), (6, "c"), (7, None)):
        histogram.observe(value, trace_id=trace)
    assert histogram.sightings == (Sighting("a", 0.5), Sighting("c", 6), None)
