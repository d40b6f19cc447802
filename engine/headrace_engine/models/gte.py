"""GTE (Zhang et al., arXiv:2407.19669), as Alibaba-NLP/gte-base-en-v1.5 and gte-multilingual-base.

It knows config.json's fields, in Alibaba's own files (model_type "new") and in transformers' ("gte"), and the tensors'
names, which are Alibaba's in both cases. It does not know the arithmetic, which Nomic BERT shares.
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

_PREFIXES = ("new.", "gte.", "model.")
_IGNORED = (
    "embeddings.position_ids",  # a constant 0, 1, 2, …
    "pooler.",  # reads the first token for classifiers; sentence pooling takes the encoder's rows instead
    "lm_head.",  # of pre-training, which reads the encoder's rows and changes none
    "classifier.",  # weighs tokens for sparse retrieval in gte-multilingual-base; a head that scores takes its own
)
# What each configuration class takes where the file leaves a field out.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gte": {
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 8192,
            "type_vocab_size": 1,
            "rope_theta": 160_000.0,
        },
        "new": {
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 2048,
            "type_vocab_size": 1,
            "rope_theta": 10_000.0,
        },
    }
)
# Alibaba's switches, and the one value of each that is computed here; it is the default too.
_SWITCHES: Mapping[str, Any] = MappingProxyType(
    {"layer_norm_type": "layer_norm", "logn_attention_scale": False, "position_embedding_type": "rope"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GteConfig:
    """The fields of config.json that shape a GTE.

    Attributes:
        family: config.json's model_type, "gte" or "new".
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        num_layers: How many layers.
        num_heads: Attention heads of each.
        head_dim: The width of a head.
        intermediate_size: The width inside the feed-forward part.
        max_positions: The longest sequence the model is made for.
        type_vocab_size: How many segments there are embeddings for, which may be none.
        theta: The base of the rotation.
        factor: What its frequencies are divided by.
        eps: The epsilon of every layer normalisation.
        activation: The function inside the feed-forward part.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    type_vocab_size: int
    theta: float
    factor: float
    eps: float
    activation: Activation
    prefixes: tuple[str, ...] = _PREFIXES
    ignored: tuple[str, ...] = _IGNORED

    @property
    def num_segments(self) -> int:
        """Segment ids are below it."""
        return max(1, self.type_vocab_size)

    @property
    def shape(self) -> AttentionShape:
        """What every layer asks of attention."""
        return AttentionShape(num_heads=self.num_heads, num_kv_heads=self.num_heads, head_dim=self.head_dim)

    @classmethod
    def read(cls, document: Document) -> "GteConfig":
        """Read the fields, in either kind of file.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        family = document.require("model_type", str)
        document = document.with_defaults(_DEFAULTS[family])
        _refuse_variants(document)
        head_dim = read_turning_head_dim(document)
        theta, factor = _read_rotation(document, head_dim)
        return cls(
            family=family,
            vocab_size=document.require_size("vocab_size"),
            hidden_size=document.require_size("hidden_size"),
            num_layers=document.require_size("num_hidden_layers", MAX_LAYERS),
            num_heads=document.require_size("num_attention_heads"),
            head_dim=head_dim,
            intermediate_size=document.require_size("intermediate_size"),
            max_positions=document.require_size("max_position_embeddings"),
            type_vocab_size=_read_type_vocab_size(document),
            theta=theta,
            factor=factor,
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
            rotary=Rotary.of(self.head_dim, self.theta, embeddings.tokens.device, self.factor),
            layers=[_take_layer(weights, f"encoder.layer.{index}", self) for index in range(self.num_layers)],
            shapes=(self.shape,),
        )


def _refuse_variants(document: Document) -> None:
    for field, supported in _SWITCHES.items():
        value = document.values.get(field, supported)
        if value != supported:
            message = f"{document.path}: {field}={shown(value)} is not supported: use a model with {supported!r}"
            raise UnsupportedModel(message)


def _read_type_vocab_size(document: Document) -> int:
    return 0 if document.require("type_vocab_size", int) == 0 else document.require_size("type_vocab_size")


def _read_rotation(document: Document, head_dim: int) -> tuple[float, float]:
    """The base, and what the frequencies are divided by.

    Alibaba's files ask for "ntk", stretched once and for all: a base times the factor, and frequencies divided by
    factor^(2/head_dim) (kexue.fm/archives/9706). Transformers writes the same as "linear", with both numbers worked
    out.
    """
    parameters = document.get("rope_scaling", dict) or document.get("rope_parameters", dict) or {}
    bases = {key: value for key, value in parameters.items() if key == "rope_theta"}
    theta = read_theta(document, bases, document.require("rope_theta", float))
    match parameters.get("rope_type") or parameters.get("type") or "default":
        case "default":
            return theta, 1.0
        case "linear":
            return theta, _read_factor(document, parameters)
        case "ntk" if parameters.get("mixed_b") is None:
            factor = _read_factor(document, parameters)
            return theta * factor, factor ** (2 / head_dim)
    message = (
        f"{document.path}: rope_scaling={shown(parameters)} is not supported: "
        "use a model with 'default', 'linear' or, without mixed_b, 'ntk'"
    )
    raise UnsupportedModel(message)


def _read_factor(document: Document, parameters: dict[str, Any]) -> float:
    factor = Document(document.path, parameters).require("factor", float)
    if factor < 1:
        message = f"{document.path}: factor={factor} in rope_scaling is not supported: use a model with 1 or more"
        raise UnsupportedModel(message)
    return factor


def _take_embeddings(weights: WeightSource, config: GteConfig) -> GatedEmbeddings:
    width, num_segments = config.hidden_size, config.type_vocab_size
    segments = "embeddings.token_type_embeddings.weight"
    return GatedEmbeddings(
        tokens=weights.take("embeddings.word_embeddings.weight", config.vocab_size, width),
        segments=weights.take(segments, num_segments, width) if num_segments else None,
        norm=LayerNorm.take(weights, "embeddings.LayerNorm", width, config.eps),
    )


def _take_layer(weights: WeightSource, name: str, config: GteConfig) -> GatedLayer:
    width, inner, heads = config.hidden_size, config.intermediate_size, config.num_heads * config.head_dim
    return GatedLayer(
        shape=config.shape,
        activation=config.activation,
        qkv=Linear.take(weights, [f"{name}.attention.qkv_proj"], width, 3 * heads),
        attended=Linear.take(weights, [f"{name}.attention.o_proj"], heads, width),
        attended_norm=LayerNorm.take(weights, f"{name}.attn_ln", width, config.eps),
        up=Linear.take(weights, [f"{name}.mlp.up_gate_proj"], width, 2 * inner, has_bias=False),
        down=Linear.take(weights, [f"{name}.mlp.down_proj"], inner, width),
        norm=LayerNorm.take(weights, f"{name}.mlp_ln", width, config.eps),
    )
