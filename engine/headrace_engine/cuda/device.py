"""Which CUDA devices there are, and what they are.

It knows names and capabilities. It decides nothing.
"""

import torch

from headrace_engine.errors import DeviceNotFound


def is_there() -> bool:
    """Whether there is a CUDA device that this build of torch can use."""
    return torch.cuda.is_available()


def find(name: str) -> torch.device:
    """Find a device by name, "cuda" or "cuda:N", and make it this thread's current one.

    Raises:
        DeviceNotFound: There is none of that name.
    """
    if not is_there():
        why = "finds no driver" if torch.version.cuda else "is built without CUDA"
        message = (
            f"device={name!r}: torch {torch.__version__} {why}: set device='cpu', or install a driver and a CUDA build "
            "of torch"
        )
        raise DeviceNotFound(message)
    device = torch.device(name if ":" in name else "cuda:0")
    if device.index >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        message = f"device={name!r}: there are {count} CUDA devices here, counted from 0: set one of them"
        raise DeviceNotFound(message)
    torch.cuda.set_device(device)
    return device


def capability(device: torch.device) -> tuple[int, int]:
    """Its compute capability, such as (9, 0) for Hopper."""
    return torch.cuda.get_device_capability(device)


def name(device: torch.device) -> str:
    """What it is called, such as "NVIDIA H200"."""
    return torch.cuda.get_device_name(device)


def num_sms(device: torch.device) -> int:
    """How many streaming multiprocessors it has."""
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count


def memory(device: torch.device) -> tuple[int, int]:
    """Bytes of its memory that are in use, by whichever process, and bytes that it has."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free, total


def utilisation(device: torch.device) -> float | None:
    """The share of the last moment in which it computed anything, 0 to 1; None where it does not say."""
    try:
        return torch.cuda.utilization(device) / 100
    except (ImportError, RuntimeError):  # without nvidia-ml-py, or with a driver that will not say
        return None
