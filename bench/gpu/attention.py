"""Attention alone, against its definition in float64, for the shapes of every model.

It knows which batches to try. What is right, `headrace_engine.attention.reference` knows.
"""

import math
from collections.abc import Iterator

import torch
from headrace_engine.attention.reference import Inputs, deviation

from gpu import device as gpu_device
from gpu.backend import Backend
from gpu.batches import draw, ladder, moved, text
from gpu.bench import Bench
from gpu.blueprint import Blueprint
from gpu.deadline import Deadline
from gpu.finding import Check, Outcome, Where
from gpu.model import Built

_WHAT = "attention = definition"
# Of elements up to about 4, which bfloat16 has in steps of 0.016 to 0.03.
_TOLERANCE = 0.03
# The definition takes memory by the square of a length.
_MAX_LENGTH = 2048


@torch.inference_mode()
def check_attention(bench: Bench, blueprint: Blueprint, deadline: Deadline) -> Iterator[Check]:
    """Run every shape of a model over a ladder of batches."""
    where = Where("attention", bench.backend.name, blueprint.name)
    with gpu_device.aside(bench.backend.device):
        check = _compare(where, bench.backend, blueprint, deadline)
        gpu_device.synchronize(bench.backend.device)
    yield check


def _compare(where: Where, backend: Backend, blueprint: Blueprint, deadline: Deadline) -> Check:
    built = Built.by(blueprint.thin(1), backend.dtype, backend.device)
    attention = backend.attention(built.model)
    rungs = ladder(min(blueprint.max_length, _MAX_LENGTH))
    found: list[tuple[float, str]] = []
    for lengths in rungs:
        if deadline.is_over:
            break
        batch = moved(draw(lengths, built.limits, seed=0), backend.device)
        plan = attention.plan(batch)
        far = [deviation(plan, batch, shape, Inputs.draw(batch, shape, backend.dtype)) for shape in built.model.shapes]
        found.append((max(far), text(lengths)))
    if not found:
        return Check(where, _WHAT, "skipped", "there was no time")
    worst, name = max(found)
    outcome: Outcome = "passed" if worst <= _TOLERANCE else "failed"
    detail = f"{len(found)} of {len(rungs)} batches, the farthest {worst:.1e} ({name})"
    return Check(where, _WHAT, outcome, detail, worst if math.isfinite(worst) else None)  # JSON has no infinity
