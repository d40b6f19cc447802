"""Qwen3 (arXiv:2505.09388) on a ragged batch: causal, or bidirectional as in pplx-embed (arXiv:2602.11151).

It knows config.json's fields, the tensors' names and the arithmetic. It does not know how attention finds the sequences
in a batch, nor what becomes of the rows.
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
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models.activations import Activation, read_activation
from headrace_engine.models.head_sizes import divide, read_turning_head_dim
from headrace_engine.models.layers import Linear, RMSNorm
from headrace_engine.models.rotary import Rotary, Rotation, read_theta
from headrace_engine.weights import WeightSource

_CAUSAL_FAMILY = "qwen3"
_PREFIXES = ("model.",)
# The token head reads the encoder's rows and changes none. heads/yes_no.py takes it where it is one's own.
_IGNORED = ("lm_head.",)
# What transformers' Qwen3Config takes where the file leaves a field out.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "num_key_value_heads": 32,
        "head_dim": 128,
        "hidden_act": "silu",
        "max_position_embeddings": 32_768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Config:
    """The fields of config.json that shape a Qwen3.

    Attributes:
        family: config.json's model_type, "qwen3" or "bidirectional_pplx_qwen3".
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        num_layers: How many layers.
        shape: What every layer asks of attention. Its heads together may be wider than D, or narrower.
        intermediate_size: The width inside the feed-forward part.
        max_positions: The longest sequence the model is made for.
        theta: The base of the rotation.
        eps: The epsilon of every normalisation.
        activation: The function inside the feed-forward part.
        attention_bias: Whether the linear layers around attention have a bias.
        num_segments: 1: the family has none.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    shape: AttentionShape
    intermediate_size: int
    max_positions: int
    theta: float
    eps: float
    activation: Activation
    attention_bias: bool
    num_segments: int = 1
    prefixes: tuple[str, ...] = _PREFIXES
    ignored: tuple[str, ...] = _IGNORED

    @classmethod
    def read(cls, document: Document) -> "Qwen3Config":
        """Read the fields, as versions 4 and 5 of transformers write them.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        document = _with_defaults(document)
        family = document.require("model_type", str)
        num_layers = document.require_size("num_hidden_layers", MAX_LAYERS)
        _refuse_windows(document, num_layers)
        return cls(
            family=family,
            vocab_size=document.require_size("vocab_size"),
            hidden_size=document.require_size("hidden_size"),
            num_layers=num_layers,
            shape=_read_shape(document, causal=_read_causal(document, family)),
            intermediate_size=document.require_size("intermediate_size"),
            max_positions=document.require_size("max_position_embeddings"),
            theta=_read_theta(document),
            eps=document.require("rms_norm_eps", float),
            activation=read_activation(document, "hidden_act"),
            attention_bias=document.require("attention_bias", bool),
        )

    def load(self, weights: WeightSource) -> "Qwen3Encoder":
        """Take the encoder's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        tokens = weights.take("embed_tokens.weight", self.vocab_size, self.hidden_size)
        return Qwen3Encoder(
            tokens=tokens,
            rotary=Rotary.of(self.shape.head_dim, self.theta, tokens.device),
            layers=[_Layer.take(weights, f"layers.{index}", self) for index in range(self.num_layers)],
            norm=RMSNorm.take(weights, "norm", self.hidden_size, self.eps),
            shapes=(self.shape,),
        )


def _with_defaults(document: Document) -> Document:
    # To transformers, null means something here: as many heads as there are of queries, and no window.
    meant = {"num_key_value_heads": document.values.get("num_attention_heads"), "sliding_window": None}
    nulls = {field: value for field, value in meant.items() if document.values.get(field, field) is None}
    return document.with_defaults({**_DEFAULTS, **nulls})


def _refuse_windows(document: Document, num_layers: int) -> None:
    """Refuse layers that see a window; transformers has them from max_window_layers on if nothing lists them."""
    kinds = document.get("layer_types", list)
    if kinds is None and document.get("use_sliding_window", bool) and document.get("sliding_window", int) is not None:
        kinds = ["sliding_attention"] * (num_layers - document.require("max_window_layers", int))
    if any(kind != "full_attention" for kind in kinds or ()):
        fields = {field: document.values.get(field) for field in ("use_sliding_window", "layer_types")}
        message = f"{document.path}: {fields} is not supported: use a model whose layers all see the whole sequence"
        raise UnsupportedModel(message)


def _read_causal(document: Document, family: str) -> bool:
    """Whether a token sees only those before it, which the family says; other fields must not contradict it."""
    causal = family == _CAUSAL_FAMILY
    for field, value in (("is_causal", causal), ("use_bidirectional_attention", not causal)):
        if document.get(field, bool) not in {None, value}:
            message = (
                f"{document.path}: {field}={str(not value).lower()} with model_type={family!r} is not supported: "
                "use a causal qwen3 or a bidirectional bidirectional_pplx_qwen3"
            )
            raise UnsupportedModel(message)
    return causal


def _read_shape(document: Document, *, causal: bool) -> AttentionShape:
    divide(document, "num_attention_heads", "num_key_value_heads")
    return AttentionShape(
        num_heads=document.require_size("num_attention_heads"),
        num_kv_heads=document.require_size("num_key_value_heads"),
        head_dim=read_turning_head_dim(document),
        causal=causal,
    )


def _read_theta(document: Document) -> float:
    # Version 4 writes rope_theta and rope_scaling, version 5 rope_parameters; it reads them in this order.
    parameters = document.get("rope_scaling", dict) or document.get("rope_parameters", dict)
    return read_theta(document, parameters, document.require("rope_theta", float))


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    shape: AttentionShape
    activation: Activation
    norm: RMSNorm
    qkv: Linear  # D → (num_heads + 2·num_kv_heads)·head_dim
    query_norm: RMSNorm  # of each head
    key_norm: RMSNorm
    attended: Linear  # num_heads·head_dim → D
    attended_norm: RMSNorm
    up: Linear  # D → 2·intermediate_size: what goes through the activation, and what multiplies it
    down: Linear  # intermediate_size → D

    @classmethod
    def take(cls, weights: WeightSource, name: str, config: Qwen3Config) -> "_Layer":
        shape, width, inner, eps = config.shape, config.hidden_size, config.intermediate_size, config.eps
        attention, mlp, bias = f"{name}.self_attn", f"{name}.mlp", config.attention_bias
        projections = [f"{attention}.{part}_proj" for part in ("q", "k", "v")]
        heads, kv_heads = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        return cls(
            shape=shape,
            activation=config.activation,
            norm=RMSNorm.take(weights, f"{name}.input_layernorm", width, eps),
            qkv=Linear.take(weights, projections, width, heads, kv_heads, kv_heads, has_bias=bias),
            query_norm=RMSNorm.take(weights, f"{attention}.q_norm", shape.head_dim, eps),
            key_norm=RMSNorm.take(weights, f"{attention}.k_norm", shape.head_dim, eps),
            attended=Linear.take(weights, [f"{attention}.o_proj"], heads, width, has_bias=bias),
            attended_norm=RMSNorm.take(weights, f"{name}.post_attention_layernorm", width, eps),
            up=Linear.take(weights, [f"{mlp}.gate_proj", f"{mlp}.up_proj"], width, inner, has_bias=False),
            down=Linear.take(weights, [f"{mlp}.down_proj"], inner, width, has_bias=False),
        )

    def __call__(self, rows: torch.Tensor, rotation: Rotation, attention: Attention) -> torch.Tensor:
        counts = (self.shape.num_heads, self.shape.num_kv_heads, self.shape.num_kv_heads)
        heads = self.qkv(self.norm(rows)).view(len(rows), sum(counts), self.shape.head_dim)
        query, key, value = heads.split(counts, dim=1)
        query, key = rotation(self.query_norm(query)), rotation(self.key_norm(key))
        rows = rows + self.attended(attention.run(query, key, value, self.shape).flatten(1))
        gate, inner = self.up(self.attended_norm(rows)).chunk(2, dim=-1)
        return rows + self.down(self.activation(gate) * inner)


@dataclass(frozen=True, slots=True, eq=False)
class Qwen3Encoder:
    """Embeddings, layers, then a normalisation, over all tokens of a batch at once.

    Attributes:
        tokens: [vocab_size, D], ids to rows; a tied token head reads it too.
        rotary: The angles.
        layers: Rows to rows.
        norm: Of the last layer's rows.
        shapes: What the layers ask of attention.
    """

    tokens: torch.Tensor
    rotary: Rotary
    layers: list[_Layer]
    norm: RMSNorm
    shapes: tuple[AttentionShape, ...]

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""
        rows = F.embedding(batch.token_ids, self.tokens)
        rotation = self.rotary(batch.positions, rows.dtype)
        for layer in self.layers:
            rows = layer(rows, rotation, attention)
        return self.norm(rows)
