"""One Dense module of sentence-transformers: a linear layer over pooled rows, then an activation.

It knows its directory and arithmetic. It does not know where in the chain it stands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models.layers import Linear
from headrace_engine.weights import Weights, weight_files


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseConfig:
    """What a Dense module's config.json says.

    Attributes:
        directory: Where its files are.
        inputs: The width of a row before.
        outputs: And after.
        has_bias: Whether a bias is added.
        activation: What each value goes through.
    """

    directory: Path
    inputs: int
    outputs: int
    has_bias: bool
    activation: Callable[[torch.Tensor], torch.Tensor]

    @classmethod
    def read(cls, directory: Path) -> "DenseConfig":
        """Read the file.

        Raises:
            CheckpointError: It or a field is missing.
            UnsupportedModel: It names an activation that the engine does not have.
        """
        document = Document.read(directory / "config.json")
        return cls(
            directory=directory,
            inputs=document.require_size("in_features"),
            outputs=document.require_size("out_features"),
            has_bias=document.get("bias", bool) is not False,
            activation=_activation(document),
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files."""
        return (self.directory / "config.json", *weight_files(self.directory))

    def load(self, device: torch.device) -> "Dense":
        """Read its tensors, in float32: the layer is small, and its rows are what callers compare.

        Raises:
            CheckpointError: One is missing, unused or misshapen.
        """
        with Weights.open(self.directory, (), torch.float32, device) as weights:
            linear = Linear.take(weights, ["linear"], self.inputs, self.outputs, has_bias=self.has_bias)
            weights.check_all_taken(())
        return Dense(linear, self.activation)


def _activation(document: Document) -> Callable[[torch.Tensor], torch.Tensor]:
    # The package path before the class name differs between versions of torch.
    match document.require("activation_function", str).rpartition(".")[2]:
        case "Tanh":
            return torch.tanh
        case "Identity":
            return torch.nn.Identity()
        case "ReLU":
            return torch.relu
        case "GELU":
            return torch.nn.GELU()
        case name:
            message = (
                f"{document.path}: activation_function={name!r} is not supported: "
                "use a model with one of these: Identity, Tanh, ReLU, GELU"
            )
            raise UnsupportedModel(message)


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """The module with its tensors.

    Attributes:
        linear: In float32.
        activation: What each value goes through.
    """

    linear: Linear
    activation: Callable[[torch.Tensor], torch.Tensor]

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """[N, inputs] float32 → [N, outputs] float32."""
        return self.activation(self.linear(rows))
