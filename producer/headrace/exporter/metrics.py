"""What the exporter tells: the latest survey as metrics, and how it goes with surveys.

Knows when a survey is too old to be told. The series of the fleet are in fleet_series.py, those of jobs in
job_series.py, those of the broker in broker_series.py.
"""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from headrace.exporter.broker_series import broker_series
from headrace.exporter.families import one
from headrace.exporter.fleet_series import fleet_series
from headrace.exporter.job_series import job_series
from headrace.survey import PARTS, Survey

# Longer than any survey takes, so one that is older than this and some intervals has no successor.
_SURVEY_S = 15.0
# Workers that had no time yet to announce themselves are no error.
_MAY_FAIL = tuple(part for part in PARTS if part != "fleet")


class Metrics(Collector):
    """The latest survey. Told on the event loop, read by threads that serve pages.

    Attributes:
        registry: of all that is told.
    """

    def __init__(self, every_s: float) -> None:
        """Nothing was surveyed yet; it will be so often."""
        self._stale_s = 3 * every_s + _SURVEY_S
        self._began_s = time.monotonic()
        self._latest: tuple[Survey, float] | None = None
        self.registry = CollectorRegistry()
        # Before the errors, which are counted before a survey is told: no page has a survey without its errors.
        self.registry.register(self)
        self._errors = Counter(
            "headrace_exporter_survey_errors",
            "Surveys in which a part could not be read, or not whole.",
            ("part",),
            registry=self.registry,
        )
        for part in _MAY_FAIL:
            self._errors.labels(part)
        ProcessCollector(registry=self.registry)

    def tell(self, survey: Survey) -> None:
        """Tell this one from now on."""
        for part in survey.missing.keys() & set(_MAY_FAIL):
            self._errors.labels(part).inc()
        self._latest = (survey, time.monotonic())

    @property
    def age_s(self) -> float:
        """Seconds since the latest survey; since the beginning, where there is none."""
        return time.monotonic() - (self._began_s if self._latest is None else self._latest[1])

    def why_not_alive(self) -> str | None:
        """Why this process is of no use any more; None while surveys come."""
        age_s = self.age_s
        return None if age_s < self._stale_s else f"the last survey ended {age_s:.0f} s ago"

    def why_not_ready(self) -> str | None:
        """Why there is nothing to be told; None from the first survey on, also of a broker that does not answer."""
        return "no survey was taken yet" if self._latest is None else self.why_not_alive()

    def describe(self) -> Iterator[Metric]:
        """Nothing: names do not depend on a survey, and the registry would take one to learn them."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All series, of a survey that is not too old."""
        latest = self._latest
        yield one("headrace_exporter_survey_age_seconds", "Since the last survey ended.", self.age_s)
        if latest is None or self.why_not_alive() is not None:
            return
        survey = latest[0]
        yield one("headrace_exporter_survey_seconds", "That the last survey took.", survey.took_s)
        yield from fleet_series(survey)
        yield from job_series(survey)
        yield from broker_series(survey)
