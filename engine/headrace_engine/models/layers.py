"""The layers that encoders are made of, with their tensors.

They know shapes. They do not know sequences: every row is treated alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.models.activations import Activation
from headrace_engine.models.packing import Product, pack
from headrace_engine.native.calls import Kernels, kernels_for
from headrace_engine.weights import WeightSource


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x·Wᵀ + b.

    Attributes:
        product: Holds the weight, [outputs, inputs], as it multiplies it.
        bias: [outputs], or None.
    """

    product: Product
    bias: torch.Tensor | None

    @classmethod
    def take(
        cls, weights: WeightSource, names: Sequence[str], inputs: int, *outputs: int, has_bias: bool = True
    ) -> "Linear":
        """Take one layer, or several that read the same input and so run as one, their outputs side by side.

        Args:
            weights: Where to take from.
            names: The layers' names.
            inputs: The width of a row.
            outputs: The outputs of each layer; one number for all, or one for each.
            has_bias: Whether each has a bias.
        """
        widths = outputs * len(names) if len(outputs) == 1 else outputs
        pairs = list(zip(names, widths, strict=True))
        return cls(
            product=pack(
                _side_by_side([weights.take(f"{name}.weight", width, inputs) for name, width in pairs]),
                weights.product_dtype,
            ),
            bias=_side_by_side([weights.take(f"{name}.bias", width) for name, width in pairs]) if has_bias else None,
        )

    def __call__(self, rows: torch.Tensor, activation: Activation | None = None) -> torch.Tensor:
        """[T, inputs] → [T, outputs], through an activation if there is one."""
        return self.product(rows, self.bias, activation)


def _side_by_side(tensors: list[torch.Tensor]) -> torch.Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


@dataclass(frozen=True, slots=True, eq=False)
class LayerNorm:
    """Layer normalisation; mean and variance in float32 whatever the dtype.

    Attributes:
        weight: [D].
        bias: [D], or None.
        eps: Added to the variance.
        own: Headrace's kernels, which add in the same pass; None leaves it to torch.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float
    own: Kernels | None = None

    @classmethod
    def take(cls, weights: WeightSource, name: str, width: int, eps: float, *, has_bias: bool = True) -> "LayerNorm":
        """Take the layer of that name."""
        weight = weights.take(f"{name}.weight", width)
        bias = weights.take(f"{name}.bias", width) if has_bias else None
        return cls(weight, bias, eps, kernels_for(weight))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[T, D] → [T, D]."""
        return F.layer_norm(rows, self.weight.shape, self.weight, self.bias, self.eps)

    def add(self, rows: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Normalise rows + residual: [T, D] → [T, D].

        Args:
            rows: A tensor that nobody else reads: the result may take its place.
            residual: What went around the layer that gave `rows`.
        """
        if self.own is None or not rows.is_contiguous():
            return self(rows + residual)
        return self.own.add_norm(rows, residual, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class RMSNorm:
    """Root mean square normalisation (arXiv:1910.07467) over the last dimension, computed in float32.

    Attributes:
        weight: [D].
        eps: Added to the mean square.
    """

    weight: torch.Tensor
    eps: float

    @classmethod
    def take(cls, weights: WeightSource, name: str, width: int, eps: float) -> "RMSNorm":
        """Take the layer of that name."""
        return cls(weights.take(f"{name}.weight", width), eps)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[…, D] → […, D]."""
        return F.rms_norm(rows, self.weight.shape, self.weight, self.eps)
