"""Times of steps, one at a time, as a caller sees them: from ids to rows in NumPy, eagerly and replayed.

It knows when a timing is one of replays. Warm-up and medians are `timing`'s.
"""

import time
from collections.abc import Iterator
from statistics import median

import torch
from headrace_engine.batch import pack
from headrace_engine.config import EngineConfig
from headrace_engine.graphs import GraphConfig
from headrace_engine.runner import Runner
from timing import repeat

from gpu import device as gpu_device
from gpu.backend import Graphing
from gpu.batches import Lengths, ids, text
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.complaints import heard, in_a_line
from gpu.deadline import Deadline
from gpu.finding import Check, Timing, Where
from gpu.floor import Matrices
from gpu.model import Built
from gpu.ways import Ways

_MAX_GRAPH_TOKENS = 65_536  # far above the engine's default, to see whether that is right
_LAUNCHES = 9
_WARM_UPS = 3


def graph_config(device: torch.device) -> EngineConfig:
    """Graphs for the largest batches too, which take gigabytes."""
    max_bytes = max(2**30, gpu_device.total_bytes(device) // 4)
    return EngineConfig(graphs=GraphConfig(defer_s=0, max_bytes=max_bytes), max_graph_tokens=_MAX_GRAPH_TOKENS)


@torch.inference_mode()
def time_steps(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Timing | Check]:
    """Time the batches of a blueprint, each eagerly and then replayed."""
    backend = bench.backend
    where = Where("steps", backend.name, blueprint.name)
    built = Built.by(blueprint, backend.dtype, backend.device)
    ways = Ways(backend, built, graph_config(backend.device))
    stopwatch = _Stopwatch(where, built, Matrices.of(blueprint.config), bench)
    for lengths in blueprint.timed:
        if deadline.is_over:
            yield Check(where, "times", "skipped", f"no time from {text(lengths)} on")
            return
        try:
            yield stopwatch.time(ways.runner, lengths, is_graph=False)
            if ways.graphing is not None:
                yield _time_replays(stopwatch, ways.graphing, lengths, where)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other batches can still be timed
            yield Check(where, "times", "failed", f"{text(lengths)}: {in_a_line(error)}")


def _time_replays(stopwatch: "_Stopwatch", graphing: Graphing, lengths: Lengths, where: Where) -> Timing | Check:
    counters = graphing.graphs.counters
    with heard() as complaints:
        for _ in range(_WARM_UPS):
            stopwatch.step(graphing.runner, lengths)
        before = counters.eager_first, counters.eager_failed, counters.eager_too_large
        timing = stopwatch.time(graphing.runner, lengths, is_graph=True)
    if before != (counters.eager_first, counters.eager_failed, counters.eager_too_large):
        reason = complaints[0] if complaints else "it is too large"
        return Check(where, "times with graphs", "skipped", f"{text(lengths)} has none: {reason}")
    return timing


class _Stopwatch:
    def __init__(self, where: Where, built: Built, matrices: Matrices, bench: Bench) -> None:
        self._where = where
        self._limits = built.limits
        self._matrices = matrices
        self._device = bench.backend.device
        self._seconds = bench.sizes.case_s

    def step(self, runner: Runner, lengths: Lengths) -> None:
        """One step, waited for."""
        runner.run(pack(ids(lengths, self._limits))).numpy()

    def time(self, runner: Runner, lengths: Lengths, *, is_graph: bool) -> Timing:
        """Many."""
        sequences = ids(lengths, self._limits)
        work = self._matrices.work(lengths)
        step = repeat(lambda: runner.run(pack(sequences)).numpy(), self._seconds)
        return Timing(
            where=self._where,
            batch=text(lengths),
            tokens=sum(lengths),
            is_graph=is_graph,
            step=step,
            launch_ms=self._launch_ms(runner, lengths),
            flop=work.flop,
            num_bytes=work.num_bytes,
        )

    def _launch_ms(self, runner: Runner, lengths: Lengths) -> float:
        batch = pack(ids(lengths, self._limits))
        durations = []
        for _ in range(_LAUNCHES):
            gpu_device.synchronize(self._device)
            began = time.perf_counter()
            rows = runner.run(batch)
            durations.append((time.perf_counter() - began) * 1000)
            rows.wait()
        return median(durations)
