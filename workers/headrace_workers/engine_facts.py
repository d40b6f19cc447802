"""What `headrace engine explain` asks of this machine and of the engine.

Knows how to find the device. Does not know flags: engine_command.py does. Imports torch.
"""

import torch
from headrace_engine import Checkpoint, EngineConfig, EngineError
from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.select import DeviceFacts
from headrace_engine.device import facts as device_facts
from headrace_engine.device import find
from headrace_engine.explain import Fact, explain
from headrace_engine.precision import compute_dtype
from headrace_engine.resolve import resolve

__all__ = ["EngineConfig", "EngineError", "facts"]


def facts(model: str, config: EngineConfig, assumed: tuple[int, int] | None) -> tuple[Fact, ...]:
    """Explain a model on a device that is here, or on one that is assumed.

    Args:
        model: As `Engine.load` takes it.
        config: How it is to be run.
        assumed: The compute capability of a CUDA device to explain for, with every backend installed; None looks for
            the device and the backends here.

    Raises:
        EngineError: the model or the device is not found, or the model cannot be run.
    """
    checkpoint = Checkpoint.read(resolve(model), model)
    if assumed is not None:
        device, there = torch.device("cuda"), DeviceFacts(kind="cuda", name="a CUDA device", capability=assumed)
        missing = dict[str, str]()
    else:
        device = find(config.device)
        there, missing = device_facts(device), dict(missing_backends())
    return explain(checkpoint, config, there, compute_dtype(config, device), missing)
