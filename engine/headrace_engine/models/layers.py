"""The two layers that every encoder is made of, with their tensors.

They know shapes. They do not know sequences: every row is treated alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.weights import Weights


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x·Wᵀ + b.

    Attributes:
        weight: [outputs, inputs].
        bias: [outputs].
    """

    weight: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def take(cls, weights: Weights, names: Sequence[str], inputs: int, outputs: int) -> "Linear":
        """Take one layer, or several that read the same input and so run as one, their outputs side by side.

        Args:
            weights: Where to take from.
            names: The layers' names.
            inputs: The width of a row.
            outputs: The outputs of each layer.
        """
        return cls(
            weight=torch.cat([weights.take(f"{name}.weight", outputs, inputs) for name in names]),
            bias=torch.cat([weights.take(f"{name}.bias", outputs) for name in names]),
        )

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[T, inputs] → [T, outputs]."""
        return F.linear(rows, self.weight, self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class LayerNorm:
    """Layer normalisation; torch computes mean and variance in float32 whatever the dtype.

    Attributes:
        weight: [D].
        bias: [D].
        eps: Added to the variance.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    eps: float

    @classmethod
    def take(cls, weights: Weights, name: str, width: int, eps: float) -> "LayerNorm":
        """Take the layer of that name."""
        return cls(weights.take(f"{name}.weight", width), weights.take(f"{name}.bias", width), eps)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[T, D] → [T, D]."""
        return F.layer_norm(rows, self.weight.shape, self.weight, self.bias, self.eps)
