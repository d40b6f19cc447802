"""In which layout a linear layer's weight is held, and the product that reads it there.

It knows which of them is the fastest on a device in a dtype (ops/decisions/0018 and 0020). It does not know how any
of them multiplies.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.models import onednn
from headrace_engine.models.activations import Activation
from headrace_engine.models.onednn import OneDnn
from headrace_engine.native.calls import Kernels, kernels

_ROUNDING = 2**-11  # of float16's 11 bits, at most


class Product(Protocol):
    """A weight [outputs, inputs] in some layout, and how it is multiplied with."""

    def __call__(
        self, rows: torch.Tensor, bias: torch.Tensor | None, activation: Activation | None = None
    ) -> torch.Tensor:
        """activation(x·Wᵀ + b).

        Args:
            rows: [T, inputs], of the weight's dtype.
            bias: [outputs], or None.
            activation: Applied on the way where the product can, and to its result where it cannot.

        Returns:
            [T, outputs], a tensor of its own.
        """


def pack(weight: torch.Tensor, dtype: torch.dtype) -> Product:
    """Lay out a weight for the fastest product there is for it; let go of the weight.

    Args:
        weight: [outputs, inputs].
        dtype: What to multiply in. Float16 is for weights of float32, where our own kernels are; one that would lose
            digits in it stays float32.
    """
    if weight.device.type == "cpu" and weight.dtype == torch.float32 and isinstance(own := kernels(), Kernels):
        held = torch.float16 if dtype == torch.float16 and _fits_float16(weight) else torch.float32
        return Panels(own, own.pack(weight, held), len(weight))
    return OneDnn.pack(weight) if onednn.suits(weight) else Plain(weight)


def _fits_float16(weight: torch.Tensor) -> bool:
    """Whether rounding costs what it does within float16's normal range: nothing is too large, and little too small."""
    rounded = weight.half().float()
    return bool((rounded - weight).norm() <= _ROUNDING * weight.norm())


@dataclass(frozen=True, slots=True, eq=False)
class Panels:
    """A weight for Headrace's own kernels, which start sooner than oneDNN's and so suit small batches; see `Product`.

    Attributes:
        own: The kernels.
        panels: What they made of the weight.
        outputs: Of the weight.
    """

    own: Kernels
    panels: torch.Tensor
    outputs: int

    def __call__(
        self, rows: torch.Tensor, bias: torch.Tensor | None, activation: Activation | None = None
    ) -> torch.Tensor:
        """See `Product`."""
        name = "identity" if activation is None else activation.name
        return self.own.linear(rows, self.panels, bias, self.outputs, name)


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """A weight as it is stored, for torch's own product; see `Product`.

    Attributes:
        weight: [outputs, inputs].
    """

    weight: torch.Tensor

    def __call__(
        self, rows: torch.Tensor, bias: torch.Tensor | None, activation: Activation | None = None
    ) -> torch.Tensor:
        """See `Product`."""
        product = F.linear(rows, self.weight, bias)
        return product if activation is None else activation(product)
