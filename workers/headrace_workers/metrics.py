"""The series of a worker, for Prometheus.

Knows their names, labels and units. All labels are of small, closed sets, and every series is there at zero from the
start, so that a rate has a beginning and an alert never looks at nothing. Does not know when anything is counted: all
is read when it is asked for, from plain numbers that the event loop writes (counters.py, pulse.py), on the thread of
whoever asks. What is read may be a step newer at the end of a page than at its beginning; it is never torn.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from importlib.metadata import version
from itertools import accumulate
from typing import TypeAlias

from headrace_contracts import PRIORITIES, Priority
from headrace_engine import device
from headrace_engine.graphs import Graphs
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from headrace_workers.counters import Counters
from headrace_workers.health import not_ready
from headrace_workers.histogram import Histogram
from headrace_workers.pulse import Pulse
from headrace_workers.reading import ClassReading
from headrace_workers.worker import Worker

_PREFIX = "headrace_worker"
_CLASS = ("class",)
_OUTCOME = ("class", "task", "outcome")
_GRAPH_EVENTS = ("eager", "captured", "replayed", "evicted")
_OF_CLASS = {
    "queue_chunks": "Chunks in hand that wait for a step.",
    "queue_tokens": "Their tokens.",
    "queue_oldest_seconds": "How long ago the broker stored the oldest of them.",
    "budget_bytes": "Bytes that may be in hand or on their way.",
    "credit_bytes": "Bytes that the broker may still send against open pulls.",
    "held_bytes": "Bytes of messages in hand.",
}

# Each with its own labels; the model comes before them.
Values: TypeAlias = Iterable[tuple[tuple[str, ...], float]]


class Metrics(Collector):
    """The series of one process.

    Attributes:
        registry: where they can be read.
    """

    def __init__(self, model: str, pulse: Pulse) -> None:
        """Take what is read.

        Args:
            model: served name of the model, on every series.
            pulse: of the process.
        """
        self._model = model
        self._pulse = pulse
        self._use: device.DeviceUse | None = None
        self._asking = threading.Lock()
        self.registry = CollectorRegistry(auto_describe=True)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def collect(self) -> Iterator[Metric]:
        """All of it, now."""
        worker = self._pulse.worker
        counters = Counters() if worker is None else worker.counters
        if worker is not None:
            yield self._info(worker)
        yield from self._life(worker)
        yield from self._work(counters)
        yield from self._in_hand(counters)
        yield from self._steps(counters)
        yield from self._times(counters)
        yield from self._trouble(counters)
        yield from self._graphs(None if worker is None else worker.lane.engine.graphs)
        if worker is not None:
            yield from self._device(worker)

    def _info(self, worker: Worker) -> Metric:
        spec, engine = worker.spec, worker.lane.engine
        family = InfoMetricFamily(_PREFIX, "What serves, and on what.", labels=("model",))
        facts = {
            "worker": worker.name,
            "fingerprint": spec.fingerprint,
            "revision": engine.checkpoint.revision,
            "dtype": spec.compute_dtype,
            "device": str(engine.device),
            "pooling": spec.pooling,
            "dim": str(spec.dim),
            "max_length": str(spec.max_length),
            "version": version("headrace"),
        }
        family.add_metric((self._model,), facts)
        return family

    def _life(self, worker: Worker | None) -> Iterator[Metric]:
        pulse, vitals = self._pulse, self._pulse.vitals()
        is_ready = not_ready(vitals, pulse.limits, time.monotonic()) is None
        yield self._gauge("ready", "Whether it can serve: 1 or 0.", is_ready)
        yield self._gauge("draining", "Whether it takes no more work: 1 or 0.", vitals.phase in {"draining", "drained"})
        yield self._gauge("connected", "Whether its connection to nats-server stands: 1 or 0.", vitals.is_connected)
        reconnects = 0 if worker is None else worker.broker.nats.stats["reconnects"]
        yield self._counter("reconnects", "Times that the connection was made anew.", reconnects)

    def _work(self, counters: Counters) -> Iterator[Metric]:
        yield self._counter("chunks", "Chunks that were answered, by outcome.", counters.chunks.items(), _OUTCOME)
        yield self._counter(
            "sequences",
            "Sequences of chunks with a result, by what became of each.",
            counters.sequences.items(),
            _OUTCOME,
        )
        yield self._counter("tokens_in", "Tokens that were pulled.", _by_class(counters.tokens_in), _CLASS)
        yield self._counter("tokens_out", "Tokens that ran and were answered.", _by_class(counters.tokens_out), _CLASS)

    def _in_hand(self, counters: Counters) -> Iterator[Metric]:
        reading = self._pulse.reading
        for (name, text), field in zip(_OF_CLASS.items(), fields(ClassReading), strict=True):
            values = [((priority,), getattr(reading.classes[priority], field.name)) for priority in PRIORITIES]
            yield self._gauge(name, text, values, _CLASS)
        yield self._gauge("held_tokens", "Tokens that were pulled and not yet answered.", counters.held_tokens)
        yield self._gauge("steps_in_flight", "Steps that the device has.", reading.steps_in_flight)
        yield self._gauge("step_budget_tokens", "Tokens of one step at most.", reading.step_budget_tokens)
        rate = reading.tokens_per_s or 0
        yield self._gauge("tokens_per_second", "What it takes itself for able to do; 0 while it does not know.", rate)

    def _steps(self, counters: Counters) -> Iterator[Metric]:
        yield self._counter("steps", "Steps that ran to the end.", counters.steps)
        yield self._counter("failed_steps", "Steps that raised.", counters.failed_steps)
        yield self._histogram("step_tokens", "Tokens of a step.", [((), counters.step_tokens)])
        yield self._histogram("step_sequences", "Sequences of a step.", [((), counters.step_sequences)])
        yield self._histogram("step_fill_ratio", "Tokens of a step over its budget.", [((), counters.step_fill)])

    def _times(self, counters: Counters) -> Iterator[Metric]:
        yield self._histogram(
            "stage_seconds",
            "What a chunk with a result spent in each stage: queue, from the broker's storing it to its step's start; "
            "pack, inside that, packing its step; run, on the device; reply, from its rows to its ack.",
            counters.stages.items(),
            ("class", "stage"),
        )
        yield self._histogram(
            "request_seconds",
            "From the broker's storing a chunk to its reply.",
            [((priority,), found) for priority, found in counters.requests.items()],
            _CLASS,
        )

    def _trouble(self, counters: Counters) -> Iterator[Metric]:
        redelivered, letters = _by_class(counters.redelivered), _by_class(counters.letters)
        yield self._counter("redelivered", "Messages that came again.", redelivered, _CLASS)
        yield self._counter("dead_lettered", "Messages kept among the dead letters.", letters, _CLASS)
        yield self._counter("given_back", "Messages given back to the broker by a drain.", counters.given_back)
        yield self._counter(
            "abandoned", "Messages neither answered nor given back, left to their redelivery.", counters.abandoned
        )
        yield self._counter("non_finite", "Sequences for which the model gave no number.", counters.non_finite)

    def _graphs(self, graphs: Graphs | None) -> Iterator[Metric]:
        events = (0, 0, 0, 0)
        if graphs is not None:
            found = graphs.counters
            eager = found.eager_too_large + found.eager_first + found.eager_deferred + found.eager_failed
            events = (eager, found.captures, found.replays, found.evictions)
        values = [((event,), number) for event, number in zip(_GRAPH_EVENTS, events, strict=True)]
        yield self._counter("graphs", "What became of steps and CUDA graphs.", values, ("event",))
        # Not named as the counter is: in OpenMetrics the two would be one family.
        yield self._gauge("graphs_kept", "CUDA graphs that there are.", 0 if graphs is None else graphs.num_graphs)
        num_bytes = 0 if graphs is None else graphs.num_bytes
        yield self._gauge("graph_memory_bytes", "Device memory that their captures have added.", num_bytes)

    def _device(self, worker: Worker) -> Iterator[Metric]:
        """What the device says; nothing where it is a CPU."""
        # A device that hangs may not answer. Then one thread waits for it, and the others have what it said last.
        if self._asking.acquire(blocking=False):
            try:
                self._use = device.use(worker.lane.engine.device)
            finally:
                self._asking.release()
        if self._use is None:
            return
        memory = [(("used",), self._use.used_bytes), (("total",), self._use.total_bytes)]
        yield self._gauge("device_memory_bytes", "Memory of the device, whoever uses it.", memory, ("kind",))
        if self._use.utilisation is not None:
            yield self._gauge("device_utilisation_ratio", "Share of time in which it computed.", self._use.utilisation)

    # -- families

    def _counter(self, name: str, text: str, values: Values | float, labels: tuple[str, ...] = ()) -> Metric:
        return self._filled(CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=("model", *labels)), values)

    def _gauge(self, name: str, text: str, values: Values | float, labels: tuple[str, ...] = ()) -> Metric:
        return self._filled(GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=("model", *labels)), values)

    def _filled(self, family: CounterMetricFamily | GaugeMetricFamily, values: Values | float) -> Metric:
        for labels, value in [((), values)] if isinstance(values, (int, float)) else values:
            family.add_metric((self._model, *labels), value)
        return family

    def _histogram(
        self, name: str, text: str, values: Iterable[tuple[tuple[str, ...], Histogram]], labels: tuple[str, ...] = ()
    ) -> Metric:
        family = HistogramMetricFamily(f"{_PREFIX}_{name}", text, labels=("model", *labels))
        for own, histogram in values:
            family.add_metric((self._model, *own), _buckets(histogram), histogram.sum)
        return family


def _buckets(histogram: Histogram) -> "list[tuple[str, float] | tuple[str, float, Exemplar]]":
    """Upper bound, observations up to it, and one that leads to a trace."""
    bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
    found: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for bound, count, seen in zip(bounds, accumulate(histogram.counts), histogram.sightings, strict=True):
        if seen is None:
            found.append((bound, count))
        else:
            found.append((bound, count, Exemplar({"trace_id": seen.trace_id}, seen.value)))
    return found


def _by_class(values: Mapping[Priority, float]) -> Values:
    return [((priority,), value) for priority, value in values.items()]
