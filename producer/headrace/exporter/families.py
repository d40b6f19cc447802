"""Metric families of Prometheus out of plain rows: labels, then the value.

Knows prometheus_client's families. A value that is not known is no sample, rather than a wrong one.
"""

from collections.abc import Iterable
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

# The values of the labels, in their order, and the sample; None where it is not known.
Row: TypeAlias = tuple[tuple[str, ...], float | None]


def gauge(name: str, help_: str, labels: tuple[str, ...], rows: Iterable[Row]) -> GaugeMetricFamily:
    """A family of values that go up and down."""
    family = GaugeMetricFamily(name, help_, labels=labels)
    _add(family, rows)
    return family


def counter(name: str, help_: str, labels: tuple[str, ...], rows: Iterable[Row]) -> CounterMetricFamily:
    """A family of counts that somebody else keeps; its samples end in `_total`."""
    family = CounterMetricFamily(name, help_, labels=labels)
    _add(family, rows)
    return family


def one(name: str, help_: str, value: float | None) -> GaugeMetricFamily:
    """A value without labels."""
    return gauge(name, help_, (), [((), value)])


def _add(family: GaugeMetricFamily | CounterMetricFamily, rows: Iterable[Row]) -> None:
    for labels, value in rows:
        if value is not None:
            family.add_metric(labels, value)
