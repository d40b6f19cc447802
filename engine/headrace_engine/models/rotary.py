"""Rotary position embedding (Su et al., arXiv:2104.09864), in the layout of transformers: first half against second.

It knows positions and a base. It does not know which layers turn, nor how far a model was trained.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headrace_engine.document import Document, shown
from headrace_engine.errors import UnsupportedModel


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """The turn of each token of one batch, the same in all layers.

    Attributes:
        cos: [T, 1, head_dim] in the compute dtype.
        sin: The same; its first half is negated, since the second half of a head is swapped in there.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    def __call__(self, heads: torch.Tensor) -> torch.Tensor:
        """[T, num_heads, head_dim] → the same, each head turned by its token's position."""
        return heads * self.cos + heads.roll(heads.shape[-1] // 2, dims=-1) * self.sin


@dataclass(frozen=True, slots=True, eq=False)
class Rotary:
    """The angles of one base.

    Attributes:
        frequencies: [head_dim / 2] float32, radians for each step in position.
    """

    frequencies: torch.Tensor

    @classmethod
    def of(cls, head_dim: int, theta: float, device: torch.device, factor: float = 1.0) -> "Rotary":
        """The frequencies θ^(−2i/head_dim), divided by a factor where the model's positions are stretched."""
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        # Computed on the CPU, so that every device turns by the same angles.
        return cls((1.0 / theta**exponents / factor).to(device))

    def __call__(self, positions: torch.Tensor, dtype: torch.dtype) -> Rotation:
        """The rotation of a batch with these positions, [T]; angles are taken in float32."""
        angles = positions[:, None].float() * self.frequencies
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        return Rotation(torch.cat((cos, cos), -1)[:, None], torch.cat((-sin, sin), -1)[:, None])


def read_theta(document: Document, parameters: Mapping[str, Any] | None, default: float | None = None) -> float:
    """The base in one set of rope parameters.

    Args:
        document: Whose set it is, for messages.
        parameters: config.json's rope_parameters, rope_scaling or one entry of them; None where there is none.
        default: What holds where the set names no base.

    Raises:
        CheckpointError: The base is of another type.
        UnsupportedModel: The angles are scaled (linear, dynamic, YaRN and the like), or no base is given.
    """
    parameters = parameters or {}
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    if kind != "default":
        message = f"{document.path}: rope_type={shown(kind)} is not supported: use a model with 'default'"
        raise UnsupportedModel(message)
    theta = Document(document.path, dict(parameters)).with_defaults({"rope_theta": default}).get("rope_theta", float)
    if theta is None or theta <= 1:
        message = f"{document.path}: rope_theta={theta!r} is no base above 1: correct the file"
        raise UnsupportedModel(message)
    return theta
