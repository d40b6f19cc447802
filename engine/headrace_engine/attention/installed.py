"""Which attention backends are installed for a kind of device, without importing any package that brings one.

It reads the metadata of installed packages, and has our own kernels looked for. It does not know whether they suit a
model.
"""

import os
import re
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from headrace_engine.native.calls import kernels
from headrace_engine.native.library import Missing

# varlen_attn takes enable_gqa and num_splits from this version on.
_VARLEN_TORCH = (2, 12)
_FLASHINFER = "pip install 'headrace[cuda]'"
_FLASH4 = "pip install flash-attn-4"


def missing_backends(kind: Literal["cpu", "cuda"]) -> Mapping[str, str]:
    """Say what stands in the way of importing and compiling each backend for a kind of device; others are there.

    For a CPU this compiles the kernels where that has not been done yet.
    """
    if kind == "cpu":
        found = kernels()
        return {"ragged": found.reason} if isinstance(found, Missing) else {}
    flashinfer = _package("flashinfer-python", _FLASHINFER) or _flashinfer_compiler()
    reasons = {"fa2": flashinfer, "fa3": flashinfer, "fa4": _package("flash-attn-4", _FLASH4), "varlen": _varlen()}
    return {backend: reason for backend, reason in reasons.items() if reason is not None}


def _package(name: str, how: str) -> str | None:
    try:
        version(name)
    except PackageNotFoundError:
        return f"{name} is not installed: {how}"
    return None


def _flashinfer_compiler() -> str | None:
    """FlashInfer compiles a kernel when a plan first needs it, unless a package holds it compiled."""
    if find_spec("flashinfer_jit_cache") is not None or shutil.which("nvcc") is not None:
        return None
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    if (Path(home) / "bin" / "nvcc").is_file():
        return None
    return "FlashInfer finds no nvcc to compile its kernels: install CUDA's compiler, or flashinfer-jit-cache"


def _varlen() -> str | None:
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is not None and tuple(map(int, found.groups())) < _VARLEN_TORCH:
        least = ".".join(map(str, _VARLEN_TORCH))
        return f"torch {torch.__version__} is older than {least}, which has what varlen needs: pip install -U torch"
    return None
