"""Leaks: whether NaN that was in a buffer, or is in another text, gets into rows where it does not belong.

It knows how NaN gets into every buffer: through a token whose embedding it is. It does not know the buffers.
"""

from collections.abc import Iterator

import numpy as np
import torch

from gpu import device as gpu_device
from gpu.batches import Lengths, draw, poisoned, text
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.deadline import Deadline
from gpu.finding import Check, Where
from gpu.likeness import SAME, Tally
from gpu.model import Built
from gpu.ways import Ways

# One over a bucket, a bucket exactly, and what is neither.
_BATCHES: tuple[Lengths, ...] = ((65,), (64,) * 5, (1, 2, 70, 200))
_NEIGHBOURS: Lengths = (70,) * 8
_NUM_GOOD = 4


@torch.inference_mode()
def check_leaks(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Check]:
    """Run good batches before and after bad ones, then good texts beside bad ones."""
    backend = bench.backend
    where = Where("leaks", backend.name, blueprint.name)
    gpu_device.poison(backend.device)
    built = Built.by(blueprint, backend.dtype, backend.device)
    ways = Ways(backend, built)
    tally = Tally("NaN that was there leaves no trace", SAME)
    for lengths in _BATCHES:
        if not deadline.is_over:
            _run_between(ways, built, lengths, tally)
    yield tally.check(where)
    rows = ways.eager(poisoned(_NEIGHBOURS, built.limits, _NUM_GOOD))
    spoiled = int((~np.isfinite(rows[:_NUM_GOOD]).all(axis=1)).sum())
    yield Check(where, "NaN in a text spoils no neighbour", "noted", f"it spoils {spoiled} of {_NUM_GOOD} neighbours")


def _run_between(ways: Ways, built: Built, lengths: Lengths, tally: Tally) -> None:
    good, bad = draw(lengths, built.limits, seed=3), poisoned(lengths, built.limits)
    eager = ways.eager(good)
    for _ in range(2):
        ways.replayed(good)
    replayed = ways.replayed(good)
    if np.isfinite(ways.eager(bad)).any():
        tally.fail(text(lengths), RuntimeError("the batch that should give NaN gives numbers"))
    ways.replayed(bad)
    tally.compare(f"eager {text(lengths)}", ways.eager(good), eager)
    after = ways.replayed(good)
    if replayed is not None and after is not None:
        tally.compare(f"replayed {text(lengths)}", after, replayed)
