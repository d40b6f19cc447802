"""The layers that encoders are made of, with their tensors.

They know shapes. They do not know sequences: every row is treated alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models import packing
from headrace_engine.weights import WeightSource


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of each element.

    Attributes:
        function: The function.
        fused: What oneDNN calls it; None where it has none.
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    fused: packing.Fused | None = None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[…] → […]."""
        return self.function(rows)


def read_activation(document: Document, field: str) -> Activation:
    """The function that a field of config.json names, in transformers' names.

    Raises:
        CheckpointError: The field is missing.
        UnsupportedModel: It names another function.
    """
    match document.require(field, str):
        case "gelu":
            return Activation(F.gelu, packing.Fused("gelu", "none"))
        case "gelu_new" | "gelu_pytorch_tanh":
            return Activation(partial(F.gelu, approximate="tanh"), packing.Fused("gelu", "tanh"))
        case "relu":
            return Activation(F.relu, packing.Fused("relu"))
        case "silu" | "swish":
            return Activation(F.silu)
        case name:
            message = (
                f"{document.path}: {field}={name!r} is not supported: use a model with one of these: "
                "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"
            )
            raise UnsupportedModel(message)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x·Wᵀ + b.

    Attributes:
        weight: [outputs, inputs]; on a CPU as packing.py lays it out.
        bias: [outputs], or None.
    """

    weight: torch.Tensor
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
            weight=packing.pack(
                _side_by_side([weights.take(f"{name}.weight", width, inputs) for name, width in pairs])
            ),
            bias=_side_by_side([weights.take(f"{name}.bias", width) for name, width in pairs]) if has_bias else None,
        )

    def __call__(self, rows: torch.Tensor, activation: Activation | None = None) -> torch.Tensor:
        """[T, inputs] → [T, outputs], through an activation if there is one."""
        if self.weight.is_mkldnn:
            fused = packing.NONE if activation is None else activation.fused
            if fused is not None:
                return packing.linear(rows, self.weight, self.bias, fused)
            rows = packing.linear(rows, self.weight, self.bias)
        else:
            rows = F.linear(rows, self.weight, self.bias)
        return rows if activation is None else activation(rows)


def _side_by_side(tensors: list[torch.Tensor]) -> torch.Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


@dataclass(frozen=True, slots=True, eq=False)
class LayerNorm:
    """Layer normalisation; torch computes mean and variance in float32 whatever the dtype.

    Attributes:
        weight: [D].
        bias: [D], or None.
        eps: Added to the variance.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float

    @classmethod
    def take(cls, weights: WeightSource, name: str, width: int, eps: float, *, has_bias: bool = True) -> "LayerNorm":
        """Take the layer of that name."""
        return cls(
            weight=weights.take(f"{name}.weight", width),
            bias=weights.take(f"{name}.bias", width) if has_bias else None,
            eps=eps,
        )

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[T, D] → [T, D]."""
        return F.layer_norm(rows, self.weight.shape, self.weight, self.bias, self.eps)


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
