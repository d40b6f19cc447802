"""Series of bulk jobs.

Pure. The label is `bulk_job`: Prometheus puts its own `job` on all that it scrapes. Only the jobs that a survey looks
into have series of their own, so that their number stays bounded.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headrace.bulk.jobs.record import State, Tally
from headrace.exporter.families import counter, gauge
from headrace.survey import Job, Survey

_LABEL = ("bulk_job",)


def job_series(survey: Survey) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    """All of them."""
    known = survey.jobs is not None
    jobs = [(job, job.tally) for job in survey.jobs or () if job.tally is not None]
    states = Counter(job.state for job in survey.jobs or ())
    yield gauge(
        "headrace_jobs",
        "Bulk jobs by the state that they should be in.",
        ("state",),
        (((state,), states[state]) for state in get_args(State) if known),
    )
    yield gauge(
        "headrace_job_info",
        "1 for each bulk job that is looked into, with its state and model.",
        ("bulk_job", "state", "model"),
        (((job.name, job.state, job.model), 1) for job, _ in jobs),
    )
    yield gauge(
        "headrace_job_rows",
        "Rows of the corpus that are done, by what became of them.",
        ("bulk_job", "state"),
        (row for job, tally in jobs for row in _rows(job.name, tally)),
    )

    def each(name: str, help_: str, value: Callable[[Job], float | None]) -> GaugeMetricFamily:
        return gauge(f"headrace_job_{name}", help_, _LABEL, (((job.name,), value(job)) for job, _ in jobs))

    yield each("rows_expected", "Rows of the corpus, where that is known.", lambda job: job.num_rows)
    yield each("processes", "Processes that work on the job.", lambda job: job.processes)
    yield each("eta_seconds", "Seconds until it is done, as fast as it was of late.", lambda job: job.eta_s)
    yield counter(
        "headrace_job_retries",
        "Chunks of the job that were sent again.",
        _LABEL,
        (((job.name,), tally.retried) for job, tally in jobs),
    )


def _rows(job: str, tally: Tally) -> Iterator[tuple[tuple[str, ...], float]]:
    for state in ("written", "unchanged", "failed"):
        yield (job, state), getattr(tally, state)
