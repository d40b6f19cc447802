"""What is measured for: a device, a dtype, and what a model asks of attention there.

It knows how an engine finds out. It loads no tensor.
"""

from dataclasses import dataclass, replace

import torch

from headrace_engine.attention.select import Case
from headrace_engine.checkpoint import Checkpoint
from headrace_engine.config import EngineConfig
from headrace_engine.device import facts as device_facts
from headrace_engine.device import find as find_device
from headrace_engine.engine import load_model
from headrace_engine.precision import compute_dtype


@dataclass(frozen=True, slots=True)
class Target:
    """A model on a CUDA device.

    Attributes:
        case: What attention is chosen for.
        config: The one given, with the device and the dtype it comes to by name, and nothing to warm up.
    """

    case: Case
    config: EngineConfig

    @classmethod
    def of(cls, checkpoint: Checkpoint, config: EngineConfig) -> "Target | None":
        """Look at what `config` comes to for a checkpoint; None where that is no CUDA device.

        Raises:
            DeviceNotFound: The device asked for is not here.
            CheckpointError: A tensor is missing, unused or misshapen.
        """
        device = find_device(config.device)
        if device.type != "cuda":
            return None
        dtype = compute_dtype(config, device)
        case = Case(
            device=device_facts(device),
            # On the meta device tensors have shapes and no numbers.
            shapes=load_model(checkpoint, dtype, torch.device("meta")).shapes,
            dtype=dtype,
            max_length=checkpoint.max_length,
        )
        named = replace(config, device=str(device), dtype=str(dtype).removeprefix("torch."), warm_up=())
        return cls(case, named)
