"""What is asked of torch.cuda, which on a CPU has nothing to say.

It knows calls. It does not know what they are for.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_MAX_POISON = 8 * 2**30


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a device.

    Attributes:
        reserved: By torch's allocator of this process.
        used: By everybody: other processes, and what the driver takes for itself, are in it.
    """

    reserved: int
    used: int


def is_cuda(device: torch.device) -> bool:
    """Whether there is anything to ask."""
    return device.type == "cuda"


def synchronize(device: torch.device) -> None:
    """Wait for all that is queued."""
    if is_cuda(device):
        torch.cuda.synchronize(device)


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """A CUDA stream of its own while the context lasts, since the default one waits for all others."""
    if not is_cuda(device):
        yield
        return
    own = torch.cuda.Stream(device)
    own.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(own):
        yield


def give_back(device: torch.device) -> None:
    """Give memory that holds nothing back to the driver."""
    if is_cuda(device):
        torch.cuda.empty_cache()


def memory(device: torch.device) -> Memory:
    """What is taken now."""
    if not is_cuda(device):
        return Memory(0, 0)
    free, total = torch.cuda.mem_get_info(device)
    return Memory(torch.cuda.memory_reserved(device), total - free)


def total_bytes(device: torch.device) -> int:
    """The memory of the device."""
    return torch.cuda.mem_get_info(device)[1] if is_cuda(device) else 0


def poison(device: torch.device) -> None:
    """Leave NaN in memory that is free: some that torch keeps, and some that only the driver has."""
    if not is_cuda(device):
        return
    free, _ = torch.cuda.mem_get_info(device)
    num_floats = min(free // 4, _MAX_POISON) // 4
    for _ in range(2):
        torch.full((num_floats,), math.nan, device=device)
        synchronize(device)
        give_back(device)
    torch.full((num_floats // 8,), math.nan, device=device)
