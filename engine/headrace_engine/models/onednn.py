"""Products with weights that oneDNN lays out once; bias and activation in the same pass.

It knows torch's oneDNN operators, which torch's own compiler emits; they are not public, so whether they are there is
looked at first. It knows no layer. Why: a plain linear layer copies its bias over the output and runs its activation
over it again, and in bfloat16 lays its weight out anew at every call (ops/decisions/0018).
"""

import os
from dataclasses import dataclass

import torch

from headrace_engine.models.activations import Activation
from headrace_engine.native.calls import ActivationName

# oneDNN and torch's layer above it each keep what they made for a number of rows: a thousand of them unless they are
# told otherwise, which came to 400 MB for MiniLM. Making it anew takes too little to be measured. Both read this at
# their first product, which no engine computes before it has imported this.
for _name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "128")

_OPERATORS = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
# Its names for a function and the form of it; SiLU it computes apart.
_FUSED: dict[ActivationName, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}
_NOTHING = ("none", "")


@dataclass(frozen=True, slots=True, eq=False)
class OneDnn:
    """A weight as oneDNN lays it out; see `packing.Product`.

    Attributes:
        weight: What `pack` made.
    """

    weight: torch.Tensor

    @classmethod
    def pack(cls, weight: torch.Tensor) -> "OneDnn":
        """Lay out [outputs, inputs]; what comes back holds the only copy that is needed."""
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight))  # noqa: SLF001 - see above

    def __call__(
        self, rows: torch.Tensor, bias: torch.Tensor | None, activation: Activation | None = None
    ) -> torch.Tensor:
        """See `packing.Product`."""
        name, form = _NOTHING if activation is None else _FUSED.get(activation.name, _NOTHING)
        multiply = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001 - see above
        product: torch.Tensor = multiply(rows, self.weight, bias, name, [], form)
        return product if activation is None or activation.name in _FUSED else activation(product)


def suits(weight: torch.Tensor) -> bool:
    """Whether oneDNN is here for a weight's device and dtype."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS):
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001 - see above
    return weight.dtype == torch.float32
