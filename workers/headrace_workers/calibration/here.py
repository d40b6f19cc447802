"""What is to be run, on what: a model, a device and a dtype, once all that "auto" leaves open is settled.

Knows how to tell one device from another, and what a time depends on. Loads no weights. Imports torch.
"""

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from headrace_engine import Checkpoint, EngineConfig
from headrace_engine.attention.installed import missing_backends
from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.device import facts, find
from headrace_engine.native.calls import Kernels, kernels
from headrace_engine.precision import compute_dtype
from headrace_engine.resolve import resolve

from headrace_workers.calibration.calibration import Conditions, Key
from headrace_workers.spec import fingerprint_of

_CPU_INFO = Path("/proc/cpuinfo")
# What tells apart CPUs of one name there: the first three on x86, the others on ARM.
_TRAITS = ("cpu family", "model", "stepping", "CPU implementer", "CPU part")
_OWN_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_PACKAGES = {"fa2": "flashinfer-python", "fa3": "flashinfer-python", "fa4": "flash-attn-4"}  # others come with torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """One model on one device.

    Attributes:
        checkpoint: what the model says about itself.
        config: how it is to be run, its dtype no longer "auto".
        device: "cpu" or "cuda".
        key: what a calibration for it is kept under.
        conditions: what its times depend on besides.
    """

    checkpoint: Checkpoint
    config: EngineConfig
    device: str
    key: Key
    conditions: Conditions

    @classmethod
    def of(cls, model: str, config: EngineConfig) -> "Here":
        """Find the model and the device, set torch's threads, and measure the dtype if that is asked for.

        To be called on the thread that will load and run the model (decision 0011).

        Raises:
            EngineError: as `Engine.load` does, except for what is wrong with the tensors.
        """
        # As `Engine.load` does it, and before the dtype is measured.
        if config.threads > 0:
            torch.set_num_threads(config.threads)
        checkpoint = Checkpoint.read(resolve(model), model)
        device = find(config.device)
        dtype = str(compute_dtype(config, device)).removeprefix("torch.")
        name = _cpu_name(_cpu_info()) if device.type == "cpu" else facts(device).name
        return cls(
            checkpoint=checkpoint,
            config=replace(config, dtype=dtype),
            device=device.type,
            key=Key(fingerprint=fingerprint_of(checkpoint), device=name, dtype=dtype),
            conditions=_conditions(config, device),
        )

    def computing_in(self, dtype: str) -> "Here":
        """The same in another dtype."""
        return replace(self, config=replace(self.config, dtype=dtype), key=replace(self.key, dtype=dtype))


def _conditions(config: EngineConfig, device: torch.device) -> Conditions:
    is_cpu = device.type == "cpu"
    return Conditions(
        processor=_processor(_cpu_info()) if is_cpu else "",
        cores=_cores() if is_cpu else 0,
        threads=torch.get_num_threads() if is_cpu else 0,
        attention=config.attention,
        backends=_own_kernels() if is_cpu else ",".join(map(_versioned, sorted(_installed()))),
        graphs=not is_cpu and config.graphs is not None,
        torch=torch.__version__,
        headrace=version("headrace"),
    )


def _installed() -> set[str]:
    return OBSTACLES.keys() - {"ragged"} - missing_backends("cuda").keys()


def _own_kernels() -> str:
    found = kernels()
    return f"ragged=={found.name}" if isinstance(found, Kernels) else ""


def _versioned(backend: str) -> str:
    try:
        return f"{backend}=={version(_PACKAGES[backend])}"
    except (KeyError, PackageNotFoundError):
        return backend


def _cpu_info() -> Mapping[str, str]:
    """What the system says of its first CPU; nothing where it is not Linux."""
    try:
        first, _, _ = _CPU_INFO.read_text("utf-8", "replace").partition("\n\n")
    except OSError:
        return {}
    fields = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


def _cpu_name(info: Mapping[str, str]) -> str:
    """What its maker calls the CPU, as far as the system tells."""
    return info.get("model name") or platform.processor() or platform.machine() or "CPU"


def _processor(info: Mapping[str, str]) -> str:
    """What tells CPUs of one name apart: clouds call several generations by one, and hide instructions of others."""
    traits = [f"{trait} {info[trait]}" for trait in _TRAITS if trait in info]
    return " ".join([*traits, torch.backends.cpu.get_cpu_capability()])


def _cores() -> float:
    """CPUs that this process may use, which containers bound by a set of them or by a share of time."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    return float(min([allowed, *_quotas(_OWN_CGROUP, _CGROUPS)]))


def _quotas(own: Path, root: Path) -> Iterator[float]:
    """CPUs' worth of time that this process's cgroup and those around it get (cgroup v2, as far as it can be read)."""
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:
        return
    place = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    for folder in (root / place, *(root / place).parents):
        if folder.is_relative_to(root):
            # It is not there without the controller, and says "max" where there is no bound.
            with contextlib.suppress(OSError, ValueError):
                quota, period = map(int, (folder / "cpu.max").read_text("utf-8").split())
                yield quota / period
