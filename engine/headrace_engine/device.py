"""Which device an engine runs on.

It knows what a configuration may name. What there is of CUDA, `headrace_engine.cuda` knows.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """How much of a device is used, by whichever process.

    Attributes:
        used_bytes: Of its memory.
        total_bytes: All of it.
        utilisation: The share of the last moment in which it computed anything, 0 to 1; None where it does not say.
    """

    used_bytes: int
    total_bytes: int
    utilisation: float | None


def use(device: torch.device) -> DeviceUse | None:
    """How much of a device is used now; None for a CPU.

    Any thread may ask, but a device that hangs may never answer.
    """
    if device.type == "cpu":
        return None
    used, total = cuda.memory(device)
    return DeviceUse(used_bytes=used, total_bytes=total, utilisation=cuda.utilisation(device))
