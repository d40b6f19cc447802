"""ModernBERT (Warner et al., arXiv:2412.13663) on a ragged batch.

Layers alternate between attention over the whole sequence and over a window. It knows config.json's fields, the
tensors' names and the arithmetic. It does not know how attention finds the sequences in a batch, nor what becomes of
the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.batch import RaggedBatch
from headrace_engine.document import MAX_LAYERS, Document
from headrace_engine.models.activations import Activation, read_activation
from headrace_engine.models.head_sizes import check_turning, divide
from headrace_engine.models.layer_kinds import LayerKind, read_kind_theta, read_layer_kinds, read_window
from headrace_engine.models.layers import LayerNorm, Linear
from headrace_engine.models.rotary import Rotary, Rotation
from headrace_engine.weights import WeightSource

_PREFIXES = ("model.",)
_IGNORED = (
    "head.",  # of pre-training: a layer and a decoder that read the encoder's rows and change none
    "decoder.",
)
# What transformers' ModernBertConfig takes where the file leaves a field out.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_activation": "gelu",
        "norm_eps": 1e-5,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "local_attention": 128,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBertConfig:
    """The fields of config.json that shape a ModernBERT.

    Attributes:
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        num_heads: Attention heads of each layer; they share D evenly.
        intermediate_size: The width inside the feed-forward part.
        max_positions: The longest sequence the model is made for.
        kinds: Of each layer.
        window: How far a token sees to either side in layers that see a window.
        thetas: The base of the rotation in layers of each kind.
        eps: The epsilon of every layer normalisation.
        activation: The function inside the feed-forward part.
        norm_bias: Whether normalisations have a bias.
        attention_bias: Whether the linear layers around attention have one.
        mlp_bias: And those of the feed-forward part.
        family: config.json's model_type.
        num_segments: 1: the family has none.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder.
    """

    vocab_size: int
    hidden_size: int
    num_heads: int
    intermediate_size: int
    max_positions: int
    kinds: tuple[LayerKind, ...]
    window: int
    thetas: Mapping[LayerKind, float]
    eps: float
    activation: Activation
    norm_bias: bool
    attention_bias: bool
    mlp_bias: bool
    family: str = "modernbert"
    num_segments: int = 1
    prefixes: tuple[str, ...] = _PREFIXES
    ignored: tuple[str, ...] = _IGNORED

    @property
    def num_layers(self) -> int:
        """How many layers."""
        return len(self.kinds)

    @property
    def head_dim(self) -> int:
        """The width of an attention head."""
        return self.hidden_size // self.num_heads

    def shape(self, kind: LayerKind) -> AttentionShape:
        """What layers of that kind ask of attention."""
        return AttentionShape(
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            head_dim=self.head_dim,
            window=self.window if kind == "sliding_attention" else None,
        )

    @classmethod
    def read(cls, document: Document) -> "ModernBertConfig":
        """Read the fields, as versions 4 and 5 of transformers write them.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        document = document.with_defaults(_DEFAULTS)
        num_layers = document.require_size("num_hidden_layers", MAX_LAYERS)
        check_turning(document, divide(document, "hidden_size", "num_attention_heads"))
        return cls(
            vocab_size=document.require_size("vocab_size"),
            hidden_size=document.require_size("hidden_size"),
            num_heads=document.require_size("num_attention_heads"),
            intermediate_size=document.require_size("intermediate_size"),
            max_positions=document.require_size("max_position_embeddings"),
            kinds=read_layer_kinds(document, num_layers, "global_attn_every_n_layers", first=True),
            window=read_window(document, "local_attention"),
            thetas={
                "full_attention": read_kind_theta(document, "full_attention", "global_rope_theta"),
                "sliding_attention": read_kind_theta(document, "sliding_attention", "local_rope_theta"),
            },
            eps=document.require("norm_eps", float),
            activation=read_activation(document, "hidden_activation"),
            norm_bias=document.require("norm_bias", bool),
            attention_bias=document.require("attention_bias", bool),
            mlp_bias=document.require("mlp_bias", bool),
        )

    def load(self, weights: WeightSource) -> "ModernBertEncoder":
        """Take the encoder's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        embeddings = _Embeddings.take(weights, self)
        device = embeddings.tokens.device
        return ModernBertEncoder(
            embeddings=embeddings,
            rotaries={kind: Rotary.of(self.head_dim, self.thetas[kind], device) for kind in set(self.kinds)},
            layers=[_Layer.take(weights, index, self) for index in range(self.num_layers)],
            norm=_take_norm(weights, "final_norm", self),
            shapes=tuple(self.shape(kind) for kind in dict.fromkeys(self.kinds)),
        )


def _take_norm(weights: WeightSource, name: str, config: ModernBertConfig) -> LayerNorm:
    return LayerNorm.take(weights, name, config.hidden_size, config.eps, has_bias=config.norm_bias)


@dataclass(frozen=True, slots=True, eq=False)
class _Embeddings:
    tokens: torch.Tensor  # [vocab_size, D]
    norm: LayerNorm

    @classmethod
    def take(cls, weights: WeightSource, config: ModernBertConfig) -> "_Embeddings":
        return cls(
            tokens=weights.take("embeddings.tok_embeddings.weight", config.vocab_size, config.hidden_size),
            norm=_take_norm(weights, "embeddings.norm", config),
        )

    def __call__(self, batch: RaggedBatch) -> torch.Tensor:
        return self.norm(F.embedding(batch.token_ids, self.tokens))


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    kind: LayerKind
    shape: AttentionShape
    activation: Activation
    norm: LayerNorm | None
    qkv: Linear  # D → 3·D
    attended: Linear  # D → D
    attended_norm: LayerNorm
    up: Linear  # D → 2·intermediate_size: what goes through the activation, and what multiplies it
    down: Linear  # intermediate_size → D

    @classmethod
    def take(cls, weights: WeightSource, index: int, config: ModernBertConfig) -> "_Layer":
        name, width, inner = f"layers.{index}", config.hidden_size, config.intermediate_size
        bias, mlp_bias = config.attention_bias, config.mlp_bias
        return cls(
            kind=config.kinds[index],
            shape=config.shape(config.kinds[index]),
            activation=config.activation,
            # The first layer reads rows that the embeddings have normalised.
            norm=None if index == 0 else _take_norm(weights, f"{name}.attn_norm", config),
            qkv=Linear.take(weights, [f"{name}.attn.Wqkv"], width, 3 * width, has_bias=bias),
            attended=Linear.take(weights, [f"{name}.attn.Wo"], width, width, has_bias=bias),
            attended_norm=_take_norm(weights, f"{name}.mlp_norm", config),
            up=Linear.take(weights, [f"{name}.mlp.Wi"], width, 2 * inner, has_bias=mlp_bias),
            down=Linear.take(weights, [f"{name}.mlp.Wo"], inner, width, has_bias=mlp_bias),
        )

    def __call__(self, rows: torch.Tensor, rotation: Rotation, attention: Attention) -> torch.Tensor:
        num_tokens, width = rows.shape
        heads = self.qkv(rows if self.norm is None else self.norm(rows)).view(num_tokens, -1, self.shape.head_dim)
        turning = 2 * self.shape.num_heads  # queries and keys; values keep their direction
        query, key = rotation(heads[:, :turning]).chunk(2, dim=1)
        attended = attention.run(query, key, heads[:, turning:], self.shape).view(num_tokens, width)
        rows = rows + self.attended(attended)
        gate, inner = self.up(self.attended_norm(rows)).chunk(2, dim=-1)
        return rows + self.down(self.activation(gate) * inner)


@dataclass(frozen=True, slots=True, eq=False)
class ModernBertEncoder:
    """Embeddings, layers, then a normalisation, over all tokens of a batch at once.

    Attributes:
        embeddings: Ids to rows.
        rotaries: The angles in layers of each kind.
        layers: Rows to rows.
        norm: Of the last layer's rows.
        shapes: What the layers ask of attention.
    """

    embeddings: _Embeddings
    rotaries: Mapping[LayerKind, Rotary]
    layers: list[_Layer]
    norm: LayerNorm
    shapes: tuple[AttentionShape, ...]

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""
        rows = self.embeddings(batch)
        rotations = {kind: rotary(batch.positions, rows.dtype) for kind, rotary in self.rotaries.items()}
        for layer in self.layers:
            rows = layer(rows, rotations[layer.kind], attention)
        return self.norm(rows)
