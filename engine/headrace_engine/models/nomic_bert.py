"""Nomic BERT (Nussbaum et al., arXiv:2402.01613).

It knows config.json's fields, in the names of nomic-ai's own code (those of GPT-2) and in transformers' names, and the
tensors' names, which are nomic-ai's in both cases. It does not know the arithmetic, which GTE shares.

nomic-ai's code: github.com/nomic-ai/contrastors, src/contrastors/models/huggingface/modeling_hf_nomic_bert.py
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from headrace_engine.attention import AttentionShape
from headrace_engine.document import MAX_LAYERS, Document, shown
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models.activations import Activation, read_activation
from headrace_engine.models.gated_bert import GatedEmbeddings, GatedEncoder, GatedLayer
from headrace_engine.models.head_sizes import read_turning_head_dim
from headrace_engine.models.layers import LayerNorm, Linear
from headrace_engine.models.rotary import Rotary, read_theta
from headrace_engine.weights import WeightSource

_PREFIXES = ("nomic_bert.", "bert.", "model.")
_IGNORED = ("cls.",)  # the head of pre-training, which reads the encoder's rows and changes none
# What transformers' NomicBertConfig takes where the file leaves a field out.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"hidden_act": "silu", "max_position_embeddings": 2048, "layer_norm_eps": 1e-12, "rope_theta": 1000.0}
)
# nomic-ai's names for the same fields, and what its NomicBertConfig takes where the file leaves one out.
_NOMIC_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
        "rotary_emb_base": "rope_theta",
        "type_vocab_size": "type_vocab_size",
        "vocab_size": "vocab_size",
    }
)
_NOMIC_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"n_positions": 1024, "layer_norm_epsilon": 1e-5, "rotary_emb_base": 1000.0, "type_vocab_size": 2}
)
# nomic-ai's switches: what it takes where the file leaves one out, and the one value that is computed here.
_NOMIC_SWITCHES: Mapping[str, tuple[Any, Any]] = MappingProxyType(
    {
        "activation_function": ("gelu_new", "swiglu"),
        "causal": (False, False),
        "mlp_fc1_bias": (True, False),
        "mlp_fc2_bias": (True, False),
        "moe_every_n_layers": (0, 0),
        "num_experts": (0, 0),
        "num_heads_kv": (None, None),
        "parallel_block": (False, False),
        "prenorm": (False, False),
        "qkv_proj_bias": (True, False),
        "rotary_emb_fraction": (0.0, 1.0),
        "rotary_emb_interleaved": (False, False),
        "rotary_emb_scale_base": (None, None),
        "rotary_head_dim": (False, False),
        "rotary_scaling_factor": (None, None),
        "scale_attn_by_inverse_layer_idx": (False, False),
        "scale_attn_weights": (True, True),
        "use_rms_norm": (False, False),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NomicBertConfig:
    """The fields of config.json that shape a Nomic BERT.

    Attributes:
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        num_layers: How many layers.
        num_heads: Attention heads of each.
        head_dim: The width of a head.
        intermediate_size: The width inside the feed-forward part.
        max_positions: The longest sequence the model is made for.
        num_segments: Segment ids are below it.
        theta: The base of the rotation.
        eps: The epsilon of every layer normalisation.
        activation: The function inside the feed-forward part.
        family: config.json's model_type.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    num_segments: int
    theta: float
    eps: float
    activation: Activation
    family: str = "nomic_bert"
    prefixes: tuple[str, ...] = _PREFIXES
    ignored: tuple[str, ...] = _IGNORED

    @property
    def shape(self) -> AttentionShape:
        """What every layer asks of attention."""
        return AttentionShape(num_heads=self.num_heads, num_kv_heads=self.num_heads, head_dim=self.head_dim)

    @classmethod
    def read(cls, document: Document) -> "NomicBertConfig":
        """Read the fields, in either set of names.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        document = _translate(document) if "n_embd" in document.values else document
        document = document.with_defaults(_DEFAULTS)
        parameters = document.get("rope_scaling", dict) or document.get("rope_parameters", dict)
        return cls(
            vocab_size=document.require_size("vocab_size"),
            hidden_size=document.require_size("hidden_size"),
            num_layers=document.require_size("num_hidden_layers", MAX_LAYERS),
            num_heads=document.require_size("num_attention_heads"),
            head_dim=read_turning_head_dim(document),
            intermediate_size=document.require_size("intermediate_size"),
            max_positions=document.require_size("max_position_embeddings"),
            num_segments=document.require_size("type_vocab_size"),
            theta=read_theta(document, parameters, document.require("rope_theta", float)),
            eps=document.require("layer_norm_eps", float),
            activation=read_activation(document, "hidden_act"),
        )

    def load(self, weights: WeightSource) -> GatedEncoder:
        """Take the encoder's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        embeddings = _take_embeddings(weights, self)
        return GatedEncoder(
            embeddings=embeddings,
            rotary=Rotary.of(self.head_dim, self.theta, embeddings.tokens.device),
            layers=[_take_layer(weights, f"encoder.layers.{index}", self) for index in range(self.num_layers)],
            shapes=(self.shape,),
        )


def _translate(document: Document) -> Document:
    """From nomic-ai's names to transformers', and refuse what only the former can say."""
    for field, (default, supported) in _NOMIC_SWITCHES.items():
        value = document.values.get(field, default)
        if value != supported:
            message = f"{document.path}: {field}={shown(value)} is not supported: use a model with {supported!r}"
            raise UnsupportedModel(message)
    values = document.with_defaults(_NOMIC_DEFAULTS).values
    fields = {name: values[field] for field, name in _NOMIC_NAMES.items() if field in values}
    return Document(document.path, {**fields, "hidden_act": "silu"})


def _take_embeddings(weights: WeightSource, config: NomicBertConfig) -> GatedEmbeddings:
    width = config.hidden_size
    return GatedEmbeddings(
        tokens=weights.take("embeddings.word_embeddings.weight", config.vocab_size, width),
        segments=weights.take("embeddings.token_type_embeddings.weight", config.num_segments, width),
        norm=LayerNorm.take(weights, "emb_ln", width, config.eps),
    )


def _take_layer(weights: WeightSource, name: str, config: NomicBertConfig) -> GatedLayer:
    width, inner, heads = config.hidden_size, config.intermediate_size, config.num_heads * config.head_dim
    return GatedLayer(
        shape=config.shape,
        activation=config.activation,
        qkv=Linear.take(weights, [f"{name}.attn.Wqkv"], width, 3 * heads, has_bias=False),
        attended=Linear.take(weights, [f"{name}.attn.out_proj"], heads, width, has_bias=False),
        attended_norm=LayerNorm.take(weights, f"{name}.norm1", width, config.eps),
        up=Linear.take(weights, [f"{name}.mlp.fc11", f"{name}.mlp.fc12"], width, inner, has_bias=False),
        down=Linear.take(weights, [f"{name}.mlp.fc2"], inner, width, has_bias=False),
        norm=LayerNorm.take(weights, f"{name}.norm2", width, config.eps),
    )
