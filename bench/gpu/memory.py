"""Memory over many shapes: whether it stays flat while graphs come and go.

It knows how to bring about thousands of shapes, captures and evictions. It does not know who holds what.
"""

from collections.abc import Iterator

import torch
from headrace_engine.config import EngineConfig
from headrace_engine.graphs import GraphConfig, GraphCounters

from gpu import device as gpu_device
from gpu.backend import Graphing
from gpu.batches import draw, shapes
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.deadline import Deadline
from gpu.finding import Check, MemoryUse, Where
from gpu.model import Built

_CONFIG = EngineConfig(graphs=GraphConfig(defer_s=0, max_bytes=256 * 2**20, max_graphs=64))
_NUM_LAYERS = 4  # a capture takes its time by the number of launches
_MAX_SEQUENCES = 128
_MAX_LENGTH = 512
_MAX_TOKENS = 4096
_EVERY = 50
# Fewer shapes are no proof.
_MIN_SHAPES = 200
# How much may be added in the second half, in which nothing comes that did not come before. The driver's part is what a
# leak of graphs would show in; torch's own may still grow a little, as shapes come in other orders.
_DRIVER_SLACK = 64 * 2**20
_TORCH_SLACK = 256 * 2**20


@torch.inference_mode()
def watch_memory(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[MemoryUse | Check]:
    """Run random shapes, each of them twice, so that the second run captures it."""
    backend = bench.backend
    where = Where("memory", backend.name, blueprint.name)
    what = "memory stays flat"
    built = Built.by(blueprint.thin(_NUM_LAYERS), backend.dtype, backend.device)
    graphing = backend.graphing(built, _CONFIG)
    if graphing is None or not bench.sizes.shapes:
        yield Check(where, what, "skipped", "there are no graphs here")
        return
    samples = tuple(_samples(graphing, built, bench, deadline))
    counters = graphing.graphs.counters
    yield _use(where, samples, counters)
    yield _judge(where, what, samples)


def _samples(graphing: Graphing, built: Built, bench: Bench, deadline: Deadline) -> Iterator[tuple[int, int, int]]:
    device = bench.backend.device
    longest = min(built.limits.max_length, _MAX_LENGTH)
    drawn = shapes(2 * bench.sizes.shapes, longest, _MAX_SEQUENCES, seed=6)
    fitting = [lengths for lengths in drawn if sum(lengths) <= _MAX_TOKENS][: bench.sizes.shapes]
    # The largest one before all, so that it does not look like growth when it comes.
    for number, lengths in enumerate((max(fitting, key=sum), *fitting)):
        batch = draw(lengths, built.limits, seed=number)
        for rows in [graphing.runner.run(batch) for _ in range(2)]:
            rows.wait()
        if number and number % _EVERY == 0:
            gpu_device.synchronize(device)
            now = gpu_device.memory(device)
            yield number, now.reserved, now.used
        if deadline.is_over:
            return


def _use(where: Where, samples: tuple[tuple[int, int, int], ...], counters: GraphCounters) -> MemoryUse:
    return MemoryUse(
        where=where,
        shapes=samples[-1][0] if samples else 0,
        captures=counters.captures,
        evictions=counters.evictions,
        samples=samples,
    )


def _judge(where: Where, what: str, samples: tuple[tuple[int, int, int], ...]) -> Check:
    shapes_done = samples[-1][0] if samples else 0
    if shapes_done < _MIN_SHAPES:
        return Check(where, what, "skipped", f"time for {shapes_done} shapes only, and it takes {_MIN_SHAPES}")
    _, torch_half, used_half = samples[len(samples) // 2]
    _, torch_end, used_end = samples[-1]
    by_torch = torch_end - torch_half
    by_driver = used_end - used_half - by_torch
    is_flat = by_torch <= _TORCH_SLACK and by_driver <= _DRIVER_SLACK
    detail = (
        f"in the second half of {shapes_done} shapes torch took {by_torch / 2**20:,.0f} MiB more, and the driver "
        f"{by_driver / 2**20:,.0f} MiB"
    )
    return Check(where, what, "passed" if is_flat else "failed", detail)
