"""A BERT that turns by position and gates its feed-forward part, as Nomic BERT and GTE are made.

It knows the arithmetic. It does not know the fields of config.json, where a sequence begins, nor what a family calls
its tensors.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.batch import RaggedBatch
from headrace_engine.models.activations import Activation
from headrace_engine.models.layers import LayerNorm, Linear
from headrace_engine.models.rotary import Rotary, Rotation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatedEmbeddings:
    """Ids to rows; positions come in later, by rotation.

    Attributes:
        tokens: [vocab_size, D].
        segments: [num_segments, D]; None where the model has none.
        norm: Of the sum.
    """

    tokens: torch.Tensor
    segments: torch.Tensor | None
    norm: LayerNorm

    def __call__(self, batch: RaggedBatch) -> torch.Tensor:
        """[T, D]."""
        if self.norm.own is not None:
            lookups = ((self.tokens, batch.token_ids), (self.segments, batch.segment_ids), (None, None))
            return self.norm.own.embed(lookups, self.norm.weight, self.norm.bias, self.norm.eps)
        rows = F.embedding(batch.token_ids, self.tokens)
        if self.segments is None:
            return self.norm(rows)
        segments = self.segments[0] if batch.segment_ids is None else F.embedding(batch.segment_ids, self.segments)
        return self.norm(rows + segments)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatedLayer:
    """Attention, then the feed-forward part, each added to what it read and normalised.

    Attributes:
        shape: What the layer asks of attention.
        activation: What the gates go through.
        qkv: D → 3·num_heads·head_dim.
        attended: num_heads·head_dim → D.
        attended_norm: After the first sum.
        up: D → 2·intermediate_size: what is gated, then the gates.
        down: intermediate_size → D.
        norm: After the second sum.
    """

    shape: AttentionShape
    activation: Activation
    qkv: Linear
    attended: Linear
    attended_norm: LayerNorm
    up: Linear
    down: Linear
    norm: LayerNorm

    def __call__(self, rows: torch.Tensor, rotation: Rotation, attention: Attention) -> torch.Tensor:
        """[T, D] → [T, D]."""
        num_tokens = rows.shape[0]
        heads = self.qkv(rows).view(num_tokens, -1, self.shape.head_dim)
        turning = 2 * self.shape.num_heads  # queries and keys; values keep their direction
        query, key = rotation(heads[:, :turning]).chunk(2, dim=1)
        attended = attention.run(query, key, heads[:, turning:], self.shape).view(num_tokens, -1)
        rows = self.attended_norm.add(self.attended(attended), rows)
        inner, gate = self.up(rows).chunk(2, dim=-1)
        return self.norm.add(self.down(inner * self.activation(gate)), rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatedEncoder:
    """Embeddings, then layers, over all tokens of a batch at once.

    Attributes:
        embeddings: Ids to rows.
        rotary: The angles of all layers.
        layers: Rows to rows.
        shapes: What the layers ask of attention.
    """

    embeddings: GatedEmbeddings
    rotary: Rotary
    layers: list[GatedLayer]
    shapes: tuple[AttentionShape, ...]

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""
        rows = self.embeddings(batch)
        rotation = self.rotary(batch.positions, rows.dtype)
        for layer in self.layers:
            rows = layer(rows, rotation, attention)
        return rows
