"""What each attention backend can compute at all, as its kernels' own sources say.

Pure rules, one function for each backend. They know shapes, dtypes and compute capabilities. They do not know what is
fast, nor what is installed: `headrace_engine.attention.select` and `installed` do.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import torch

from headrace_engine.attention import AttentionShape
from headrace_engine.errors import UnsupportedModel
from headrace_engine.native.calls import DTYPES, HEAD_STEP

Capability = tuple[int, int]  # of a CUDA device, such as (9, 0) for Hopper

_HALVES = (torch.float16, torch.bfloat16)
_DTYPES = {"ragged": DTYPES}  # of others but sdpa, which takes all, the halves


def require(backend: str, shapes: Iterable[AttentionShape], dtype: torch.dtype) -> None:
    """Check shapes and dtype against a backend, on whatever device.

    Raises:
        UnsupportedModel: It cannot compute one of them; the message says what, and what to do.
    """
    for shape in shapes:
        reason = obstacle(backend, shape, dtype)
        if reason is not None:
            message = f"attention={backend!r}: {reason}"
            raise UnsupportedModel(message)


def obstacle(
    backend: str, shape: AttentionShape, dtype: torch.dtype, capability: Capability | None = None
) -> str | None:
    """Say why a backend cannot compute a shape, or None where it can.

    Args:
        backend: One of `OBSTACLES`.
        shape: What a layer asks.
        dtype: Of query, key and value.
        capability: Of the CUDA device; None leaves it out of the question.
    """
    if backend != "sdpa" and dtype not in _DTYPES.get(backend, _HALVES):
        return f"its kernels have no {str(dtype).removeprefix('torch.')}: set dtype='bfloat16', or attention='sdpa'"
    if backend != "sdpa" and shape.has_position_bias:
        return "its kernels add no bias by position: set attention='sdpa' for this model"
    return OBSTACLES[backend](shape, capability)


def _sdpa(shape: AttentionShape, capability: Capability | None) -> None:  # noqa: ARG001 - it takes everything
    return None


def _flashinfer(shape: AttentionShape) -> str | None:
    """flashinfer/utils.py, is_fa3_prefill_head_dim_supported; prefill.py, window_left."""
    if shape.head_dim not in {64, 128, 256}:
        return f"FlashInfer has kernels for heads of 64, 128 and 256, not {shape.head_dim}"
    if shape.window is not None and not shape.causal:
        return f"FlashInfer's windows are to the left only, and this model's reach {shape.window} tokens to both sides"
    return None


def _fa2(shape: AttentionShape, capability: Capability | None) -> str | None:
    return _below((8, 0), capability) or _flashinfer(shape)


def _fa3(shape: AttentionShape, capability: Capability | None) -> str | None:
    if capability is not None and capability[0] != 9:
        return f"its kernels are for compute capability 9.0 (Hopper), and this device has {text(capability)}"
    return _flashinfer(shape)


def _fa4(shape: AttentionShape, capability: Capability | None) -> str | None:
    """flash_attn/cute/interface.py, _validate_head_dims; beyond Blackwell's first kind, what it was tuned for."""
    reason = _below((9, 0), capability)
    if reason is not None:
        return reason
    is_hopper = capability is None or capability[0] == 9
    if shape.head_dim % 8 or shape.head_dim > 256 or not (is_hopper or shape.head_dim in {*range(8, 129), 256}):
        sizes = "up to 256" if is_hopper else "up to 128, or 256"
        return f"FlashAttention 4 has kernels for heads of multiples of 8 {sizes}, not {shape.head_dim}"
    return None


def _varlen(shape: AttentionShape, capability: Capability | None) -> str | None:
    """aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, mha_varlen_fwd."""
    if shape.head_dim % 8 or shape.head_dim > 256:
        return f"torch has kernels for heads of multiples of 8 up to 256, not {shape.head_dim}"
    return _below((8, 0), capability)


def _ragged(shape: AttentionShape, capability: Capability | None) -> str | None:  # noqa: ARG001 - it is for CPUs
    """native/sources/attention.cpp."""
    if shape.head_dim % HEAD_STEP:
        return f"Headrace has kernels for heads of multiples of {HEAD_STEP}, not {shape.head_dim}"
    return None


def _below(least: Capability, capability: Capability | None) -> str | None:
    if capability is None or capability >= least:
        return None
    return f"its kernels need compute capability {text(least)}, and this device has {text(capability)}"


def text(capability: Capability) -> str:
    """As NVIDIA writes it: (9, 0) → "9.0"."""
    return f"{capability[0]}.{capability[1]}"


OBSTACLES: Mapping[str, Callable[[AttentionShape, Capability | None], str | None]] = MappingProxyType(
    {"fa2": _fa2, "fa3": _fa3, "fa4": _fa4, "varlen": _varlen, "ragged": _ragged, "sdpa": _sdpa}
)
