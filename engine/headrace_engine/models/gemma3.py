"""Gemma 3 (arXiv:2503.19786) with attention to both sides, as in EmbeddingGemma (arXiv:2509.20354), on a ragged batch.

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
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.models.activations import Activation, read_activation
from headrace_engine.models.head_sizes import divide, read_turning_head_dim
from headrace_engine.models.layer_kinds import LayerKind, read_kind_theta, read_layer_kinds, read_window
from headrace_engine.models.layers import Linear, RMSNorm
from headrace_engine.models.rotary import Rotary, Rotation
from headrace_engine.weights import WeightSource

_PREFIXES = ("model.",)
_IGNORED = ("lm_head.",)  # reads the encoder's rows and changes none
# What transformers' Gemma3TextConfig takes where the file leaves a field out.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemma3Config:
    """The fields of config.json that shape a Gemma 3.

    Attributes:
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        shapes: What layers of each kind ask of attention. Their heads together may be wider than D, or narrower.
        intermediate_size: The width inside the feed-forward part.
        max_positions: The longest sequence the model is made for.
        kinds: Of each layer.
        thetas: The base of the rotation in layers of each kind.
        eps: The epsilon of every normalisation.
        activation: The function inside the feed-forward part.
        attention_bias: Whether the linear layers around attention have a bias.
        family: config.json's model_type.
        num_segments: 1: the family has none.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder.
    """

    vocab_size: int
    hidden_size: int
    shapes: Mapping[LayerKind, AttentionShape]
    intermediate_size: int
    max_positions: int
    kinds: tuple[LayerKind, ...]
    thetas: Mapping[LayerKind, float]
    eps: float
    activation: Activation
    attention_bias: bool
    family: str = "gemma3_text"
    num_segments: int = 1
    prefixes: tuple[str, ...] = _PREFIXES
    ignored: tuple[str, ...] = _IGNORED

    @property
    def num_layers(self) -> int:
        """How many layers."""
        return len(self.kinds)

    @classmethod
    def read(cls, document: Document) -> "Gemma3Config":
        """Read the fields, as versions 4 and 5 of transformers write them.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        document = document.with_defaults(_DEFAULTS)
        _refuse_variants(document)
        num_layers = document.require_size("num_hidden_layers", MAX_LAYERS)
        return cls(
            vocab_size=document.require_size("vocab_size"),
            hidden_size=document.require_size("hidden_size"),
            shapes={
                "full_attention": _read_shape(document, window=None),
                # Transformers keeps half of the field, plus one, and lets a token see those nearer than that.
                "sliding_attention": _read_shape(document, window=read_window(document, "sliding_window")),
            },
            intermediate_size=document.require_size("intermediate_size"),
            max_positions=document.require_size("max_position_embeddings"),
            kinds=read_layer_kinds(document, num_layers, "sliding_window_pattern", first=False),
            thetas={
                "full_attention": read_kind_theta(document, "full_attention", "rope_theta"),
                "sliding_attention": read_kind_theta(document, "sliding_attention", "rope_local_base_freq"),
            },
            eps=document.require("rms_norm_eps", float),
            activation=read_activation(document, "hidden_activation"),
            attention_bias=document.require("attention_bias", bool),
        )

    def load(self, weights: WeightSource) -> "Gemma3Encoder":
        """Take the encoder's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        tokens = weights.take("embed_tokens.weight", self.vocab_size, self.hidden_size)
        kinds = tuple(dict.fromkeys(self.kinds))
        head_dim = self.shapes["full_attention"].head_dim
        return Gemma3Encoder(
            tokens=tokens,
            # The root too is rounded to the compute dtype: the model was trained so.
            scale=float(torch.tensor(self.hidden_size**0.5, dtype=tokens.dtype)),
            rotaries={kind: Rotary.of(head_dim, self.thetas[kind], tokens.device) for kind in kinds},
            layers=[_Layer.take(weights, index, self) for index in range(self.num_layers)],
            norm=_Norm.take(weights, "norm", self.hidden_size, self.eps),
            shapes=tuple(self.shapes[kind] for kind in kinds),
        )


def _refuse_variants(document: Document) -> None:
    if not document.get("use_bidirectional_attention", bool):
        message = (
            f"{document.path}: use_bidirectional_attention is not true, and Gemma 3 with causal attention is not "
            "supported: use a model whose tokens see both sides, such as EmbeddingGemma"
        )
        raise UnsupportedModel(message)
    softcap = document.get("attn_logit_softcapping", float)
    if softcap is not None:
        message = f"{document.path}: attn_logit_softcapping={softcap} is not supported: use a model with null"
        raise UnsupportedModel(message)


def _read_shape(document: Document, window: int | None) -> AttentionShape:
    divide(document, "num_attention_heads", "num_key_value_heads")
    scalar = document.require("query_pre_attn_scalar", float)
    if scalar <= 0:
        message = f"{document.path}: query_pre_attn_scalar={scalar} should be above 0: correct the file"
        raise CheckpointError(message)
    return AttentionShape(
        num_heads=document.require_size("num_attention_heads"),
        num_kv_heads=document.require_size("num_key_value_heads"),
        head_dim=read_turning_head_dim(document),
        window=window,
        scale=scalar**-0.5,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Norm:
    """RMS normalisation by 1 and a stored weight; in float32 throughout, since bfloat16 would round the sum."""

    inner: RMSNorm

    @classmethod
    def take(cls, weights: WeightSource, name: str, width: int, eps: float) -> "_Norm":
        return cls(RMSNorm(1 + weights.take(f"{name}.weight", width).float(), eps))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return self.inner(rows.float()).to(rows.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    kind: LayerKind
    shape: AttentionShape
    activation: Activation
    norm: _Norm
    qkv: Linear  # D → (num_heads + 2·num_kv_heads)·head_dim
    query_norm: _Norm  # of each head
    key_norm: _Norm
    attended: Linear  # num_heads·head_dim → D
    attended_norm: _Norm
    up_norm: _Norm
    up: Linear  # D → 2·intermediate_size: what goes through the activation, and what multiplies it
    down: Linear  # intermediate_size → D
    down_norm: _Norm

    @classmethod
    def take(cls, weights: WeightSource, index: int, config: Gemma3Config) -> "_Layer":
        kind, width, inner, eps = config.kinds[index], config.hidden_size, config.intermediate_size, config.eps
        shape, bias, name = config.shapes[kind], config.attention_bias, f"layers.{index}"
        queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        projections = [f"{name}.self_attn.{part}_proj" for part in ("q", "k", "v")]
        return cls(
            kind=kind,
            shape=shape,
            activation=config.activation,
            norm=_Norm.take(weights, f"{name}.input_layernorm", width, eps),
            qkv=Linear.take(weights, projections, width, queries, keys, keys, has_bias=bias),
            query_norm=_Norm.take(weights, f"{name}.self_attn.q_norm", shape.head_dim, eps),
            key_norm=_Norm.take(weights, f"{name}.self_attn.k_norm", shape.head_dim, eps),
            attended=Linear.take(weights, [f"{name}.self_attn.o_proj"], queries, width, has_bias=bias),
            attended_norm=_Norm.take(weights, f"{name}.post_attention_layernorm", width, eps),
            up_norm=_Norm.take(weights, f"{name}.pre_feedforward_layernorm", width, eps),
            up=Linear.take(weights, [f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"], width, inner, has_bias=False),
            down=Linear.take(weights, [f"{name}.mlp.down_proj"], inner, width, has_bias=False),
            down_norm=_Norm.take(weights, f"{name}.post_feedforward_layernorm", width, eps),
        )

    def __call__(self, rows: torch.Tensor, rotation: Rotation, attention: Attention) -> torch.Tensor:
        rows = rows + self.attended_norm(self.attended(self._attend(self.norm(rows), rotation, attention)))
        gate, inner = self.up(self.up_norm(rows)).chunk(2, dim=-1)
        return rows + self.down_norm(self.down(self.activation(gate) * inner))

    def _attend(self, rows: torch.Tensor, rotation: Rotation, attention: Attention) -> torch.Tensor:
        num_tokens, num_heads, num_kv_heads = rows.shape[0], self.shape.num_heads, self.shape.num_kv_heads
        heads = self.qkv(rows).view(num_tokens, -1, self.shape.head_dim)
        query = rotation(self.query_norm(heads[:, :num_heads]))
        key = rotation(self.key_norm(heads[:, num_heads : num_heads + num_kv_heads]))
        value = heads[:, num_heads + num_kv_heads :]
        return attention.run(query, key, value, self.shape).view(num_tokens, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Gemma3Encoder:
    """Scaled embeddings, layers, then a normalisation, over all tokens of a batch at once.

    Attributes:
        tokens: [vocab_size, D].
        scale: What the embeddings are multiplied by.
        rotaries: The angles in layers of each kind.
        layers: Rows to rows.
        norm: Of the last layer's rows.
        shapes: What the layers ask of attention.
    """

    tokens: torch.Tensor
    scale: float
    rotaries: Mapping[LayerKind, Rotary]
    layers: list[_Layer]
    norm: _Norm
    shapes: tuple[AttentionShape, ...]

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""
        rows = F.embedding(batch.token_ids, self.tokens) * self.scale
        rotations = {kind: rotary(batch.positions, rows.dtype) for kind, rotary in self.rotaries.items()}
        for layer in self.layers:
            rows = layer(rows, rotations[layer.kind], attention)
        return self.norm(rows)
