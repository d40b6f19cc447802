"""One process's part of a bulk: large batches one after the other, two in flight, begun together with other processes.

It knows how to keep the device busy. It does not know how many others do.
"""

import time
from collections import deque
from collections.abc import Iterator

import torch
from headrace_engine.batch import pack
from headrace_engine.lazy import LazyTensor
from headrace_engine.runner import Runner

from gpu.batches import Lengths, ids
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.complaints import heard
from gpu.deadline import Deadline
from gpu.finding import Barrier, Check, Stint, Where
from gpu.model import Built
from gpu.steps import graph_config
from gpu.ways import Ways

_WARM_UPS = 3
_IN_FLIGHT = 2


@torch.inference_mode()
def run_bulk(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Barrier | Stint | Check]:
    """Do a stint without graphs, then one with them where there can be any."""
    backend = bench.backend
    built = Built.by(blueprint, backend.dtype, backend.device)
    ways = Ways(backend, built, graph_config(backend.device))
    num_sequences, length = bench.sizes.bulk
    worker = _Worker(built, (length,) * num_sequences)
    worker.run(ways.runner, _WARM_UPS)
    yield from _stint(bench, worker, ways.runner, is_graph=False)
    if ways.graphing is None:
        return
    with heard() as complaints:
        worker.run(ways.graphing.runner, _WARM_UPS)
    if ways.graphing.graphs.num_graphs == 0 or deadline.is_over:
        reason = complaints[0] if complaints else "there is no time"
        yield Check(Where("bulk", backend.name, blueprint.name), "bulk with graphs", "skipped", reason)
        return
    yield from _stint(bench, worker, ways.graphing.runner, is_graph=True)


def _stint(bench: Bench, worker: "_Worker", runner: Runner, *, is_graph: bool) -> Iterator[Barrier | Stint]:
    yield Barrier()
    bench.wait()
    began_s = time.monotonic()
    batches = 0
    while time.monotonic() < began_s + bench.sizes.bulk_s:
        worker.run(runner, _IN_FLIGHT)
        batches += _IN_FLIGHT
    worker.finish()
    yield Stint(is_graph=is_graph, began_s=began_s, ended_s=time.monotonic(), batches=batches)


class _Worker:
    def __init__(self, built: Built, lengths: Lengths) -> None:
        self._sequences = ids(lengths, built.limits)
        self._unread: deque[LazyTensor] = deque()

    def run(self, runner: Runner, num: int) -> None:
        """Queue so many, each once the one before the last is read."""
        for _ in range(num):
            self._unread.append(runner.run(pack(self._sequences)))
            if len(self._unread) > _IN_FLIGHT - 1:
                self._unread.popleft().numpy()

    def finish(self) -> None:
        """Read what is left."""
        while self._unread:
            self._unread.popleft().numpy()
