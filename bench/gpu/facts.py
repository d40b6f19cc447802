"""What device, versions and attention backends there are.

It knows where to look, and does without what it does not find. It names no person, host or place on a disk.
"""

import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.select import Case, choose
from headrace_engine.device import facts

from gpu import device as gpu_device
from gpu import older_torch
from gpu.blueprint import QWEN3
from gpu.model import Built

_KERNELS = ("flashinfer-python", "flashinfer-jit-cache", "flash-attn-4", "nvidia-cutlass-dsl")
_PACKAGES = ("torch", "triton", *_KERNELS, "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What makes two runs comparable.

    Attributes:
        device: Its name and compute capability.
        memory_gib: Of the device.
        driver: Version; None where nobody says.
        cuda: Version that torch was built for.
        python: Version.
        packages: Versions of those that are installed.
        machine: As `machine.Machine` sees it, or why not.
    """

    device: str
    memory_gib: float
    driver: str | None
    cuda: str | None
    python: str
    packages: Mapping[str, str]
    machine: Mapping[str, Any]

    @classmethod
    def here(cls, device: torch.device) -> "Facts":
        """Look around."""
        return cls(
            device=str(facts(device)),
            memory_gib=round(gpu_device.total_bytes(device) / 2**30, 1),
            driver=_driver() if gpu_device.is_cuda(device) else None,
            cuda=torch.version.cuda,
            python=platform.python_version(),
            packages=dict(_packages()),
            machine=_machine(),
        )


def ranking(device: torch.device) -> tuple[list[str], dict[str, str]]:
    """The backends to run, that which the engine would choose for a Qwen3 first, and what stands in the way of others.

    Whether one can run a given model its own process finds out.
    """
    device_facts = facts(device)
    # What CPUs have besides is no stand-in for a GPU.
    missing = {**missing_backends(device_facts.kind), "ragged": "it is for CPUs"}
    shapes = Built.by(QWEN3.thin(1), torch.bfloat16, torch.device("cpu")).model.shapes
    case = Case(device=device_facts, shapes=shapes, dtype=torch.bfloat16, max_length=QWEN3.max_length)
    first = choose(case, missing)
    found = [first.backend]
    while "sdpa" not in found:
        found.append(choose(case, {**missing, **dict.fromkeys(found, "it is there already")}).backend)
    absent = {name: reason for name, reason in first.others.items() if name not in found}
    if "varlen" in missing and gpu_device.is_cuda(device):
        absent["varlen"] += f"; {older_torch.NAME} stands in for it here"
        found.insert(len(found) - 1, older_torch.NAME)
    return found, absent


def _packages() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _driver() -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.split()), None)


def _machine() -> dict[str, Any]:
    # A machine with a GPU may have torch and no more: then neither the client nor a nats-server is there to be named.
    try:
        from machine import Machine  # noqa: PLC0415

        return asdict(Machine.here("bfloat16"))
    except Exception as error:  # noqa: BLE001 - whatever is missing, the device is what counts
        return {"unknown": type(error).__name__}  # its message may name a place on a disk
