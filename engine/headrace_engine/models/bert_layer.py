"""The layer of BERT (Devlin et al., arXiv:1810.04805), which RoBERTa, DistilBERT and MPNet have too.

It knows the arithmetic. It does not know ids or positions, where a sequence begins, nor what a family calls its
tensors.
"""

from dataclasses import dataclass

import torch

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.attention.rules import obstacle
from headrace_engine.document import Document
from headrace_engine.models.activations import Activation, read_activation
from headrace_engine.models.head_sizes import divide
from headrace_engine.models.layers import LayerNorm, Linear
from headrace_engine.models.packing import Panels
from headrace_engine.native.calls import LayerParts, Part
from headrace_engine.weights import WeightSource


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNames:
    """What a family calls the parts of a layer, after the name of the layer itself.

    Attributes:
        qkv: The linear layers to queries, keys and values.
        attended: The linear layer after attention.
        attended_norm: The normalisation after that.
        up: The first linear layer of the feed-forward part.
        down: The second.
        norm: The normalisation after that.
    """

    qkv: tuple[str, str, str]
    attended: str
    attended_norm: str
    up: str
    down: str
    norm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerConfig:
    """The sizes of a layer.

    Attributes:
        hidden_size: D, the width of a token's row.
        num_heads: Attention heads; they share D evenly.
        intermediate_size: The width inside the feed-forward part.
        eps: The epsilon of both normalisations.
        activation: The function inside the feed-forward part.
        has_position_bias: Whether attention scores get a bias by position.
    """

    hidden_size: int
    num_heads: int
    intermediate_size: int
    eps: float
    activation: Activation
    has_position_bias: bool = False

    @property
    def shape(self) -> AttentionShape:
        """What the layer asks of attention."""
        head_dim = self.hidden_size // self.num_heads
        return AttentionShape(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            head_dim=head_dim,
            has_position_bias=self.has_position_bias,
        )

    @classmethod
    def read(cls, document: Document, *, has_position_bias: bool = False) -> "LayerConfig":
        """Read the fields, under BERT's names.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: The activation is unknown.
        """
        divide(document, "hidden_size", "num_attention_heads")
        return cls(
            hidden_size=document.require_size("hidden_size"),
            num_heads=document.require_size("num_attention_heads"),
            intermediate_size=document.require_size("intermediate_size"),
            eps=document.require("layer_norm_eps", float),
            activation=read_activation(document, "hidden_act"),
            has_position_bias=has_position_bias,
        )


@dataclass(frozen=True, slots=True, eq=False)
class BertLayer:
    """A layer with its tensors: attention, then a feed-forward part, each added to its input and normalised.

    Attributes:
        shape: What it asks of attention.
        inner: The width inside the feed-forward part.
        activation: The function there.
        qkv: D → 3·D.
        attended: D → D.
        attended_norm: Of D.
        up: D → intermediate_size.
        down: intermediate_size → D.
        norm: Of D.
    """

    shape: AttentionShape
    inner: int
    activation: Activation
    qkv: Linear
    attended: Linear
    attended_norm: LayerNorm
    up: Linear
    down: Linear
    norm: LayerNorm

    @classmethod
    def take(cls, weights: WeightSource, name: str, config: LayerConfig, names: LayerNames) -> "BertLayer":
        """Take the layer of that name.

        Raises:
            CheckpointError: A tensor is missing or misshapen.
        """
        width, inner = config.hidden_size, config.intermediate_size
        return cls(
            shape=config.shape,
            inner=inner,
            activation=config.activation,
            qkv=Linear.take(weights, [f"{name}.{part}" for part in names.qkv], width, width),
            attended=Linear.take(weights, [f"{name}.{names.attended}"], width, width),
            attended_norm=LayerNorm.take(weights, f"{name}.{names.attended_norm}", width, config.eps),
            up=Linear.take(weights, [f"{name}.{names.up}"], width, inner),
            down=Linear.take(weights, [f"{name}.{names.down}"], inner, width),
            norm=LayerNorm.take(weights, f"{name}.{names.norm}", width, config.eps),
        )

    def __call__(self, rows: torch.Tensor, attention: Attention, bias: torch.Tensor | None = None) -> torch.Tensor:
        """[T, D] → [T, D].

        Args:
            rows: In the compute dtype.
            attention: The plan of the batch.
            bias: See `Attention.run`.
        """
        num_tokens, width = rows.shape
        query, key, value = self.qkv(rows).view(num_tokens, 3, self.shape.num_heads, self.shape.head_dim).unbind(1)
        attended = attention.run(query, key, value, self.shape, bias).view(num_tokens, width)
        rows = self.attended_norm.add(self.attended(attended), rows)
        return self.norm.add(self.down(self.up(rows, self.activation)), rows)

    @property
    def parts(self) -> LayerParts | None:
        """What our own kernels compute all of in one call; None where they do not."""
        linears = [_panels(each) for each in (self.qkv, self.attended, self.up, self.down)]
        if None in linears or obstacle("ragged", self.shape, self.norm.weight.dtype) is not None:
            return None
        qkv, attended, up, down = (each for each in linears if each is not None)
        return LayerParts(
            qkv=qkv,
            attended=attended,
            attended_norm=(self.attended_norm.weight, self.attended_norm.bias),
            up=up,
            down=down,
            norm=(self.norm.weight, self.norm.bias),
            width=self.shape.num_heads * self.shape.head_dim,
            num_heads=self.shape.num_heads,
            inner=self.inner,
            scale=self.shape.softmax_scale,
            attended_eps=self.attended_norm.eps,
            eps=self.norm.eps,
            activation=self.activation.name,
        )


def _panels(linear: Linear) -> Part | None:
    return (linear.product.panels, linear.bias) if isinstance(linear.product, Panels) else None
