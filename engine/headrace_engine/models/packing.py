"""Weights of linear layers on a CPU, laid out once as oneDNN multiplies them; bias and activation in the same pass.

It knows torch's oneDNN operators, which torch's own compiler emits; they are not public, so what is not there is done
the plain way. It knows no layer. Why: a plain linear layer copies its bias over the output and runs its activation over
it again, and in bfloat16 lays its weight out anew at every call (ops/decisions/0018).
"""

import os
from dataclasses import dataclass

import torch

# oneDNN and torch's layer above it each keep what they made for a number of rows: a thousand of them unless they are
# told otherwise, which came to 400 MB for MiniLM. Making it anew takes too little to be measured. Both read this at
# their first product, which no engine computes before it has imported this.
for _name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "128")


@dataclass(frozen=True, slots=True)
class Fused:
    """An activation as oneDNN's operator names it.

    Attributes:
        name: Such as "gelu"; "none" is the identity.
        algorithm: Which form of it; empty where there is one.
    """

    name: str = "none"
    algorithm: str = ""


NONE = Fused()
_OPERATORS = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")


def pack(weight: torch.Tensor) -> torch.Tensor:
    """The weight as oneDNN lays it out, or the same where there is no gain in it: on other devices, in other dtypes.

    What comes back holds the only copy that is needed; let go of the other.
    """
    if weight.device.type != "cpu" or not _is_supported(weight.dtype):
        return weight
    return torch.ops.mkldnn._reorder_linear_weight(weight)  # type: ignore[no-any-return]  # noqa: SLF001 - see above


def linear(rows: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None, fused: Fused = NONE) -> torch.Tensor:
    """activation(x·Wᵀ + b).

    Args:
        rows: [T, inputs].
        packed: What `pack` made of a weight [outputs, inputs].
        bias: [outputs].
        fused: The activation.

    Returns:
        [T, outputs].
    """
    operator = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001 - see above
    return operator(rows, packed, bias, fused.name, [], fused.algorithm)  # type: ignore[no-any-return]


def _is_supported(dtype: torch.dtype) -> bool:
    if not torch.backends.mkldnn.is_available() or not all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001 - see above
    return dtype == torch.float32
