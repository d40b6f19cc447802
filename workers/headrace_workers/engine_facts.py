"""What `headrace engine explain` asks of this machine, of the engine and of what was calibrated.

Knows how to find the device. Does not know flags: engine_command.py does. Imports torch.
"""

from collections.abc import Iterator

import torch
from headrace_engine import Checkpoint, EngineConfig, EngineError, GraphConfig
from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.select import DeviceFacts
from headrace_engine.device import facts as device_facts
from headrace_engine.device import find
from headrace_engine.explain import Fact, explain
from headrace_engine.precision import compute_dtype
from headrace_engine.resolve import resolve

from headrace_workers.calibration import store
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.calibration.here import Here
from headrace_workers.calibration.loader import find as find_calibrated
from headrace_workers.calibration.loader import tuned
from headrace_workers.spec import default_step

__all__ = ["EngineConfig", "EngineError", "GraphConfig", "facts"]


def facts(model: str, config: EngineConfig, assumed: tuple[int, int] | None) -> tuple[Fact, ...]:
    """Explain a model on a device that is here, or on one that is assumed.

    Args:
        model: As `Engine.load` takes it.
        config: How it is to be run.
        assumed: The compute capability of a CUDA device to explain for, with every backend installed; None looks for
            the device, the backends and the calibration here.

    Raises:
        EngineError: the model or the device is not found, or the model cannot be run.
    """
    if assumed is not None:
        device = DeviceFacts(kind="cuda", name="a CUDA device", capability=assumed)
        checkpoint = Checkpoint.read(resolve(model), model)
        return explain(checkpoint, config, device, compute_dtype(config, torch.device("cuda")), {})
    here, found = find_calibrated(model, config)
    device, dtype = device_facts(find(config.device)), getattr(torch, here.key.dtype)
    return (
        *explain(here.checkpoint, tuned(config, found), device, dtype, missing_backends(device.kind)),
        *_budgets(here, found),
    )


def _budgets(here: Here, found: Calibration | Absence) -> Iterator[Fact]:
    """What a worker would take for its step, and from where."""
    if isinstance(found, Absence):
        yield Fact("calibration", "none", f"{found.reason}; run {found.remedy}")
        yield Fact("step budget", f"{default_step(None, here.checkpoint.max_length)} tokens", "a guess")
        return
    choice = found.choice
    yield Fact("calibration", f"of {found.made}", str(store.file_of(found.key)))
    yield Fact(
        "step budget",
        f"{choice.step_tokens} tokens",
        f"online requests wait {choice.wait_ms:.0f} ms at most behind what the device has in hand, for a target of "
        f"{choice.target_ms:g}; {choice.budget_tokens} tokens in hand",
    )
