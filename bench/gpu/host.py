"""What the parts of a step before the model cost the host: packing, padding, queueing the copy.

It knows the parts. What the launches of the model cost is in the timings of `steps`.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch
from headrace_engine.batch import RaggedBatch, pack
from headrace_engine.buckets import Buckets, pad
from headrace_engine.cuda.copies import Copies

from gpu import device as gpu_device
from gpu.batches import Lengths, ids, text
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.deadline import Deadline
from gpu.finding import HostCost, Where
from gpu.model import Built
from gpu.ways import CONFIG

_BATCHES: tuple[Lengths, ...] = ((32,), (128,), (40,) * 25, (100,) * 25)
_RUNS = 21


@torch.inference_mode()
def measure_host(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[HostCost]:
    """Time each part by itself, without waiting for the device."""
    backend = bench.backend
    built = Built.by(blueprint.thin(1), backend.dtype, backend.device)
    graphing = backend.graphing(built, CONFIG)
    copies = Copies(backend.device) if graphing is not None else None
    for lengths in _BATCHES:
        if deadline.is_over:
            return
        sequences = ids(lengths, built.limits)
        batch = pack(sequences)
        yield HostCost(
            where=Where("host", backend.name, blueprint.name),
            batch=text(lengths),
            pack_ms=_median_ms(partial(pack, sequences)),
            pad_ms=None if graphing is None else _pad_ms(batch, graphing.buckets),
            upload_ms=None if copies is None else _upload_ms(copies, batch),
        )


def _pad_ms(batch: RaggedBatch, buckets: Buckets) -> float | None:
    key = buckets.key(batch)
    return None if key is None else _median_ms(partial(pad, batch, key))


def _upload_ms(copies: Copies, batch: RaggedBatch) -> float:
    with gpu_device.aside(copies.device):
        return _median_ms(partial(copies.upload, batch), partial(gpu_device.synchronize, copies.device))


def _median_ms(run: Callable[[], object], between: Callable[[], object] = lambda: None) -> float:
    durations = []
    for _ in range(_RUNS):
        between()
        began = time.perf_counter()
        run()
        durations.append((time.perf_counter() - began) * 1000)
    return median(durations)
