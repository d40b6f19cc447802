"""The series of a process whose worker does not serve yet, and of what is there only on some devices."""

from itertools import product
from typing import Any

import pytest
import torch
from headrace_engine import device
from headrace_engine.buckets import Buckets
from headrace_engine.graphs import Graphs
from headrace_workers.health import Limits
from headrace_workers.metrics import Metrics
from headrace_workers.pulse import Pulse
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.samples import Sample

CLASSES = ("online", "batch")
OUTCOMES = (
    *("ok", "invalid", "too_long", "model_mismatch", "non_finite"),
    *("expired", "cancelled", "overloaded", "unavailable", "internal"),
)
BY_OUTCOME = [
    {"class": priority, "task": task, "outcome": outcome}
    for priority, task, outcome in product(CLASSES, ("embed", "score", "unknown"), OUTCOMES)
]
BY_CLASS = [{"class": priority} for priority in CLASSES]
BY_STAGE = [{"class": p, "stage": s} for p, s in product(CLASSES, ("queue", "pack", "run", "reply"))]
ONE: list[dict[str, str]] = [{}]
EXPECTED = {
    "ready": ONE,
    "draining": ONE,
    "connected": ONE,
    "reconnects_total": ONE,
    "chunks_total": BY_OUTCOME,
    "sequences_total": BY_OUTCOME,
    "tokens_in_total": BY_CLASS,
    "tokens_out_total": BY_CLASS,
    "queue_chunks": BY_CLASS,
    "queue_tokens": BY_CLASS,
    "queue_oldest_seconds": BY_CLASS,
    "budget_bytes": BY_CLASS,
    "credit_bytes": BY_CLASS,
    "held_bytes": BY_CLASS,
    "held_tokens": ONE,
    "steps_in_flight": ONE,
    "step_budget_tokens": ONE,
    "tokens_per_second": ONE,
    "steps_total": ONE,
    "failed_steps_total": ONE,
    "step_tokens_count": ONE,
    "step_sequences_count": ONE,
    "step_fill_ratio_count": ONE,
    "stage_seconds_count": BY_STAGE,
    "request_seconds_count": BY_CLASS,
    "redelivered_total": BY_CLASS,
    "dead_lettered_total": BY_CLASS,
    "given_back_total": ONE,
    "abandoned_total": ONE,
    "non_finite_total": ONE,
    "graphs_total": [{"event": event} for event in ("eager", "captured", "replayed", "evicted")],
    "graphs_kept": ONE,
    "graph_memory_bytes": ONE,
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("mill", Pulse(Limits()))


def samples(metrics: Metrics) -> list[Sample]:
    page = generate_latest(metrics.registry).decode()
    return [sample for family in read_text(page) for sample in family.samples]


def test_every_series_is_there_at_zero_before_the_model_is_loaded(metrics: Metrics) -> None:
    found = samples(metrics)
    for name, labels in EXPECTED.items():
        mine = [sample for sample in found if sample.name == f"headrace_worker_{name}"]
        assert [sample.value for sample in mine] == [0] * len(labels), name
        assert sorted(sorted(sample.labels.items()) for sample in mine) == sorted(
            sorted({**each, "model": "mill"}.items()) for each in labels
        )


def test_there_is_no_series_but_those(metrics: Metrics) -> None:
    names = {sample.name for sample in samples(metrics) if sample.name.startswith("headrace_")}
    histograms = {name.removesuffix("_count") for name in EXPECTED if name.endswith("_count")}
    parts = {f"{name}{part}" for name in histograms for part in ("_bucket", "_sum")}
    assert {name.removeprefix("headrace_worker_") for name in names} == EXPECTED.keys() | parts


def test_the_process_tells_of_itself(metrics: Metrics) -> None:
    found = {sample.name: sample.value for sample in samples(metrics)}
    assert found["process_resident_memory_bytes"] > 2**20


def test_the_page_is_openmetrics_as_well(metrics: Metrics) -> None:
    page = generate_openmetrics(metrics.registry).decode()  # type: ignore[no-untyped-call] # it has no types
    families = list(read_openmetrics(page))  # type: ignore[no-untyped-call] # nor has it
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation for family in families)


def test_graphs_are_told_by_what_became_of_steps(metrics: Metrics) -> None:
    graphs = Graphs(Any, Buckets(max_tokens=64, max_length=64, buckets_max_seqlen=False))  # type: ignore[arg-type] # nothing is captured here
    counts = graphs.counters
    counts.eager_first, counts.eager_deferred, counts.eager_failed, counts.eager_too_large = 1, 2, 3, 4
    counts.captures, counts.replays, counts.evictions = 5, 6, 7
    found = {s.labels["event"]: s.value for f in metrics._graphs(graphs) for s in f.samples if "event" in s.labels}
    assert found == {"eager": 10, "captured": 5, "replayed": 6, "evicted": 7}


class _Watched:
    """As much of a worker as its device's series read."""

    class lane:  # noqa: N801 - an attribute of a worker
        class engine:  # noqa: N801
            device = torch.device("cuda:0")


def test_a_device_that_says_so_has_its_memory_and_load_told(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    said = device.DeviceUse(used_bytes=3, total_bytes=8, utilisation=0.5)
    monkeypatch.setattr(device, "use", lambda _: said)
    found = [(s.name, s.labels.get("kind"), s.value) for f in metrics._device(_Watched) for s in f.samples]  # type: ignore[arg-type] # see there
    assert found == [
        ("headrace_worker_device_memory_bytes", "used", 3),
        ("headrace_worker_device_memory_bytes", "total", 8),
        ("headrace_worker_device_utilisation_ratio", None, 0.5),
    ]
    monkeypatch.setattr(device, "use", lambda _: None)
    assert list(metrics._device(_Watched)) == []  # type: ignore[arg-type] # see there
