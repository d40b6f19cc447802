"""A model: encoder, then head.

It knows the order. It does not know where its tensors are, nor what the rows become.
"""

from dataclasses import dataclass

import torch

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.batch import RaggedBatch
from headrace_engine.heads import Head
from headrace_engine.models import Encoder


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model with its tensors, on one device.

    Attributes:
        encoder: Ids to a row for each token.
        head: To a row for each sequence.
    """

    encoder: Encoder
    head: Head

    @property
    def shapes(self) -> tuple[AttentionShape, ...]:
        """What it asks of attention."""
        return self.encoder.shapes

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Run a batch on the model's device: [N, dim] float32, in packed order."""
        return self.head(self.encoder(batch, attention), batch)
