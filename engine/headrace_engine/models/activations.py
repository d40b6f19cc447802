"""The functions between the two linear layers of a feed-forward part.

They know numbers, and the names that transformers gives them. Who else can compute them on the way, inside a product,
goes by their name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.native.calls import ActivationName


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of each element.

    Attributes:
        name: "gelu" is the exact one, "gelu_tanh" its approximation.
        function: The function.
    """

    name: ActivationName
    function: Callable[[torch.Tensor], torch.Tensor]

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
            return Activation("gelu", F.gelu)
        case "gelu_new" | "gelu_pytorch_tanh":
            return Activation("gelu_tanh", partial(F.gelu, approximate="tanh"))
        case "relu":
            return Activation("relu", F.relu)
        case "silu" | "swish":
            return Activation("silu", F.silu)
        case name:
            message = (
                f"{document.path}: {field}={name!r} is not supported: use a model with one of these: "
                "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"
            )
            raise UnsupportedModel(message)
