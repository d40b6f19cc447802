"""Series of the fleet: workers, queues, dead letters and results, by model and class.

Pure. What the survey does not know has no sample, so that nothing old looks like news.
"""

from collections.abc import Callable, Iterator

from headrace_contracts import PRIORITIES, topology
from prometheus_client.core import GaugeMetricFamily

from headrace.exporter.families import gauge, one
from headrace.survey import Consumer, Queue, Survey

_QUEUE = ("model", "class")


def fleet_series(survey: Survey) -> Iterator[GaugeMetricFamily]:
    """All of them."""
    yield from _crews(survey)
    yield from _queues(survey)
    yield _dead_letters(survey)
    results = (survey.streams or {}).get(topology.RESULTS_STREAM)
    yield one(
        "headrace_fleet_results_bytes",
        "Bytes of results of bulk jobs that no sink has written yet.",
        None if results is None else results.num_bytes,
    )
    yield one(
        "headrace_fleet_results_limit_bytes",
        "Bytes of results that there may be; then batch work stands still.",
        None if results is None else results.max_bytes,
    )


def _crews(survey: Survey) -> Iterator[GaugeMetricFamily]:
    crews = survey.crews or {}
    yield gauge(
        "headrace_fleet_workers",
        "Workers that announce themselves, of each model that is published, queued for or served.",
        ("model",),
        (((model,), len(crew.members)) for model, crew in crews.items()),
    )
    yield gauge(
        "headrace_fleet_tokens_per_second",
        "Tokens a second that the workers of a model say they can do together; none while none of them knows.",
        ("model",),
        (((model,), crew.rate if crew.members else 0) for model, crew in crews.items()),
    )


def _queues(survey: Survey) -> Iterator[GaugeMetricFamily]:
    def each(name: str, help_: str, value: Callable[[Queue], float | None]) -> GaugeMetricFamily:
        rows = (((queue.model, queue.priority), value(queue)) for queue in survey.queues or ())
        return gauge(f"headrace_fleet_{name}", help_, _QUEUE, rows)

    def consumer(name: str, help_: str, value: Callable[[Consumer], float]) -> GaugeMetricFamily:
        return each(name, help_, lambda queue: None if queue.consumer is None else value(queue.consumer))

    yield each(
        "queue_messages", "Chunks in a queue, those that workers hold included.", lambda queue: queue.num_messages
    )
    yield each("queue_bytes", "Bytes that they take in the broker.", lambda queue: queue.num_bytes)
    yield each("queue_tokens", "Tokens in a queue, estimated from its bytes.", lambda queue: queue.num_tokens)
    yield each("queue_limit_bytes", "Bytes that a queue may hold.", lambda queue: queue.max_bytes)
    yield each(
        "queue_oldest_seconds", "Age of the oldest chunk in a queue; 0 without any.", lambda queue: queue.oldest_s
    )
    yield each(
        "backlog_seconds",
        "Seconds that the workers of the model need for all that is queued, or the last ones would have needed; "
        "infinite where none was ever heard.",
        survey.backlog_s,
    )
    yield consumer("unacked_messages", "Chunks that workers hold.", lambda found: found.num_unacked)
    yield consumer(
        "redelivered_messages", "Of these, chunks that came more than once.", lambda found: found.num_redelivered
    )
    yield consumer("waiting_pulls", "Pulls of workers that wait for chunks.", lambda found: found.num_waiting)


def _dead_letters(survey: Survey) -> GaugeMetricFamily:
    counts: dict[tuple[str, ...], float] = {}
    if survey.dead_letters is not None:
        known = {spec.name for spec in survey.models or ()} | {queue.model for queue in survey.queues or ()}
        counts = {(model, priority): 0 for model in sorted(known) for priority in PRIORITIES}
        counts |= {(each.model, each.priority): each.num_letters for each in survey.dead_letters}
    return gauge(
        "headrace_fleet_dead_letters", "Chunks that no worker could run, and that are kept.", _QUEUE, counts.items()
    )
