"""Which device an engine runs on.

It knows what a configuration may name. What there is of CUDA, `headrace_engine.cuda` knows.
"""

import torch

from headrace_engine.attention.select import DeviceFacts
from headrace_engine.cuda import device as cuda


def find(name: str) -> torch.device:
    """Find the device that `EngineConfig.device` names; "auto" is the first CUDA device where there is one.

    Raises:
        DeviceNotFound: It is not here.
    """
    if name == "cpu" or (name == "auto" and not cuda.is_there()):
        return torch.device("cpu")
    return cuda.find("cuda" if name == "auto" else name)


def facts(device: torch.device) -> DeviceFacts:
    """What is known of a device that is here."""
    if device.type == "cpu":
        return DeviceFacts(kind="cpu", name="the CPU of this machine")
    return DeviceFacts(kind="cuda", name=cuda.name(device), capability=cuda.capability(device))
