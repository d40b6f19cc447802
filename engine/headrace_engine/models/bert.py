"""BERT (Devlin et al., arXiv:1810.04805) on a ragged batch.

It knows config.json's fields, the tensors' names and the arithmetic. It does not know how attention finds the sequences
in a batch, nor what becomes of the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.attention import Attention
from headrace_engine.batch import RaggedBatch
from headrace_engine.document import Document
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.models.layers import LayerNorm, Linear
from headrace_engine.weights import Weights

Activation = Callable[[torch.Tensor], torch.Tensor]

_PREFIXES = ("bert.", "model.")
_IGNORED = (
    "embeddings.position_ids",  # a constant 0, 1, 2, … that old versions of transformers saved
    "pooler.",  # reads the first token for next-sentence prediction; sentence pooling takes the encoder's rows instead
    "cls.",  # the heads of pre-training, which read the encoder's rows and change none
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """The fields of config.json that shape a BERT.

    Attributes:
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        num_layers: How many layers.
        num_heads: Attention heads of each; they share D evenly.
        intermediate_size: The width inside the feed-forward part.
        max_positions: The longest sequence there are positions for.
        num_segments: Segment ids are below it.
        eps: The epsilon of every layer normalisation.
        activation: The function inside the feed-forward part.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int
    num_segments: int
    eps: float
    activation: Activation

    @property
    def family(self) -> str:
        """config.json's model_type."""
        return "bert"

    @classmethod
    def read(cls, document: Document) -> "BertConfig":
        """Read the fields.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        _refuse_variants(document)
        config = cls(
            vocab_size=document.require("vocab_size", int),
            hidden_size=document.require("hidden_size", int),
            num_layers=document.require("num_hidden_layers", int),
            num_heads=document.require("num_attention_heads", int),
            intermediate_size=document.require("intermediate_size", int),
            max_positions=document.require("max_position_embeddings", int),
            num_segments=document.require("type_vocab_size", int),
            eps=document.require("layer_norm_eps", float),
            activation=_activation(document),
        )
        if config.num_heads < 1 or config.hidden_size % config.num_heads:
            message = (
                f"{document.path}: hidden_size={config.hidden_size} is no multiple of "
                f"num_attention_heads={config.num_heads}: take the file from the original checkpoint"
            )
            raise CheckpointError(message)
        return config


def _refuse_variants(document: Document) -> None:
    positions = document.get("position_embedding_type", str) or "absolute"
    if positions != "absolute":
        message = (
            f"{document.path}: position_embedding_type={positions!r} is not supported: use a model with 'absolute'"
        )
        raise UnsupportedModel(message)
    if document.get("is_decoder", bool):
        message = f"{document.path}: is_decoder=true is not supported: use a model whose tokens see both sides"
        raise UnsupportedModel(message)


def _activation(document: Document) -> Activation:
    match document.require("hidden_act", str):
        case "gelu":
            return F.gelu
        case "gelu_new" | "gelu_pytorch_tanh":
            return partial(F.gelu, approximate="tanh")
        case "relu":
            return F.relu
        case name:
            message = (
                f"{document.path}: hidden_act={name!r} is not supported: use a model with one of these: "
                "gelu, gelu_new, gelu_pytorch_tanh, relu"
            )
            raise UnsupportedModel(message)


@dataclass(frozen=True, slots=True, eq=False)
class _Embeddings:
    tokens: torch.Tensor  # [vocab_size, D]
    positions: torch.Tensor  # [max_positions, D]
    segments: torch.Tensor  # [num_segments, D]
    norm: LayerNorm

    @classmethod
    def take(cls, weights: Weights, config: BertConfig) -> "_Embeddings":
        width = config.hidden_size
        return cls(
            tokens=weights.take("embeddings.word_embeddings.weight", config.vocab_size, width),
            positions=weights.take("embeddings.position_embeddings.weight", config.max_positions, width),
            segments=weights.take("embeddings.token_type_embeddings.weight", config.num_segments, width),
            norm=LayerNorm.take(weights, "embeddings.LayerNorm", width, config.eps),
        )

    def __call__(self, batch: RaggedBatch) -> torch.Tensor:
        segments = self.segments[0] if batch.segment_ids is None else F.embedding(batch.segment_ids, self.segments)
        rows = F.embedding(batch.token_ids, self.tokens) + segments + F.embedding(batch.positions, self.positions)
        return self.norm(rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    num_heads: int
    activation: Activation
    qkv: Linear  # D → 3·D
    attended: Linear  # D → D
    attended_norm: LayerNorm
    up: Linear  # D → intermediate_size
    down: Linear  # intermediate_size → D
    norm: LayerNorm

    @classmethod
    def take(cls, weights: Weights, name: str, config: BertConfig) -> "_Layer":
        width, inner = config.hidden_size, config.intermediate_size
        projections = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        return cls(
            num_heads=config.num_heads,
            activation=config.activation,
            qkv=Linear.take(weights, projections, width, width),
            attended=Linear.take(weights, [f"{name}.attention.output.dense"], width, width),
            attended_norm=LayerNorm.take(weights, f"{name}.attention.output.LayerNorm", width, config.eps),
            up=Linear.take(weights, [f"{name}.intermediate.dense"], width, inner),
            down=Linear.take(weights, [f"{name}.output.dense"], inner, width),
            norm=LayerNorm.take(weights, f"{name}.output.LayerNorm", width, config.eps),
        )

    def __call__(self, rows: torch.Tensor, attention: Attention) -> torch.Tensor:
        num_tokens, width = rows.shape
        query, key, value = self.qkv(rows).view(num_tokens, 3, self.num_heads, width // self.num_heads).unbind(1)
        attended = attention.run(query, key, value).view(num_tokens, width)
        rows = self.attended_norm(rows + self.attended(attended))
        return self.norm(rows + self.down(self.activation(self.up(rows))))


@dataclass(frozen=True, slots=True, eq=False)
class BertEncoder:
    """Embeddings, then layers, over all tokens of a batch at once.

    Attributes:
        embeddings: Ids to rows.
        layers: Rows to rows.
    """

    embeddings: _Embeddings
    layers: list[_Layer]

    @classmethod
    def load(cls, directory: Path, config: BertConfig, dtype: torch.dtype) -> "BertEncoder":
        """Load the weights of a directory in the given dtype.

        Raises:
            CheckpointError: A tensor is missing, unused or misshapen.
        """
        weights = Weights.read(directory, _PREFIXES, dtype)
        encoder = cls(
            embeddings=_Embeddings.take(weights, config),
            layers=[_Layer.take(weights, f"encoder.layer.{index}", config) for index in range(config.num_layers)],
        )
        weights.close(_IGNORED)
        return encoder

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""
        rows = self.embeddings(batch)
        for layer in self.layers:
            rows = layer(rows, attention)
        return rows
