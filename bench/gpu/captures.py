"""What a graph costs: the time of its capture, and its memory, the driver's part of it too.

It knows which shapes to capture. What the figures are for: `GraphConfig.defer_s` should be longer than a capture, and
`max_graphs` should bound what the driver takes, which torch does not count.
"""

import time
from collections.abc import Iterator

import torch
from headrace_engine.buckets import GraphKey
from headrace_engine.static_batch import dummy

from gpu import device as gpu_device
from gpu.backend import Graphing
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.complaints import heard
from gpu.deadline import Deadline
from gpu.finding import Capture, Check, Where
from gpu.model import Built
from gpu.ways import CONFIG

# Largest first, as the engine's own warm-up does: the others then find the pool large enough.
_TOKENS = (4096, 2048, 1024, 512, 256, 128, 64)
_SEQUENCES = (1, 8)


@torch.inference_mode()
def measure_captures(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Capture | Check]:
    """Capture graphs one by one."""
    backend = bench.backend
    where = Where("captures", backend.name, blueprint.name)
    built = Built.by(blueprint, backend.dtype, backend.device)
    graphing = backend.graphing(built, CONFIG)
    if graphing is None:
        yield Check(where, "what a graph costs", "skipped", "nothing can be captured")
        return
    keys = list(_keys(graphing))
    eager = backend.eager(built)
    for key in keys:
        # The driver loads each kernel at its first use, and that memory is no graph's.
        eager.run(dummy(key)).wait()
    with heard() as complaints:
        for key in keys:
            if deadline.is_over:
                yield Check(where, "what a graph costs", "skipped", f"no time from {key} on")
                break
            yield from _capture(where, graphing, key, backend.device)
    if complaints:
        yield Check(where, "every shape can be captured", "noted", f"{len(complaints)} not: {complaints[0]}")


def _keys(graphing: Graphing) -> Iterator[GraphKey]:
    longest = graphing.buckets.max_length
    for tokens in _TOKENS:
        for sequences in _SEQUENCES:
            if tokens <= sequences * longest:
                key = graphing.buckets.fit(tokens, sequences, -(-tokens // sequences))
                if key is not None:
                    yield key


def _capture(where: Where, graphing: Graphing, key: GraphKey, device: torch.device) -> Iterator[Capture]:
    graphs = graphing.graphs
    gpu_device.synchronize(device)
    num_bytes, num_graphs, before = graphs.num_bytes, graphs.num_graphs, gpu_device.memory(device)
    began = time.perf_counter()
    graphing.runner.warm_up([key])
    gpu_device.synchronize(device)
    capture_ms = (time.perf_counter() - began) * 1000
    after = gpu_device.memory(device)
    if graphs.num_graphs > num_graphs:
        yield Capture(
            where=where,
            tokens=key.num_tokens,
            sequences=key.num_sequences,
            capture_ms=capture_ms,
            pool_bytes=graphs.num_bytes - num_bytes,
            driver_bytes=(after.used - before.used) - (after.reserved - before.reserved),
        )
