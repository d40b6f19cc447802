"""The first thing that the process of a backend does: find out which models it can run, and compile what they need.

It knows which batches need kernels of their own. It does not know how long compiling takes: seconds, or minutes.
"""

from collections.abc import Iterator, Sequence

import torch
from headrace_engine.attention.rules import OBSTACLES, obstacle
from headrace_engine.device import facts

from gpu.backend import Backend
from gpu.batches import Lengths, draw
from gpu.blueprint import Blueprint
from gpu.complaints import in_a_line
from gpu.finding import Check, Ready, Where
from gpu.model import Built

# FlashAttention 4 compiles anew for short sequences and for more than 256 of them.
_BATCHES: tuple[Lengths, ...] = ((1,), (200,), (1,) * 300, (1, 200))


@torch.inference_mode()
def prepare(backend: Backend, blueprints: Sequence[Blueprint]) -> Iterator[Check | Ready]:
    """Run one thin layer of every model that the backend can compute; says last which those are."""
    models = []
    for blueprint in blueprints:
        where = Where("prepare", backend.name, blueprint.name)
        try:
            built = Built.by(blueprint.thin(1), backend.dtype, backend.device)
            reason = _obstacle(backend, built)
            if reason is not None:
                yield Check(where, "it can run the model", "skipped", reason)
                continue
            _compile(backend, built)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other models can still be tried
            yield Check(where, "it can run the model", "failed", in_a_line(error))
        else:
            models.append(blueprint.name)
    yield Ready(tuple(models))


def _obstacle(backend: Backend, built: Built) -> str | None:
    name = backend.name.rstrip("*")
    if name not in OBSTACLES:
        return None
    capability = facts(backend.device).capability
    reasons = (obstacle(name, shape, backend.dtype, capability) for shape in built.model.shapes)
    return next((reason for reason in reasons if reason is not None), None)


def _compile(backend: Backend, built: Built) -> None:
    runner = backend.eager(built)
    for lengths in _BATCHES:
        runner.run(draw(lengths, built.limits, seed=0)).numpy()
