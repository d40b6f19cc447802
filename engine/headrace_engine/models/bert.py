"""BERT (Devlin et al., arXiv:1810.04805) on a ragged batch, and all that RoBERTa, DistilBERT and MPNet share with it.

It knows config.json's fields, the tensors' names and the arithmetic. It does not know how attention finds the sequences
in a batch, nor what becomes of the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.attention.ragged import RaggedAttention
from headrace_engine.batch import RaggedBatch
from headrace_engine.document import MAX_LAYERS, Document
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.models.bert_layer import BertLayer, LayerConfig, LayerNames
from headrace_engine.models.layers import LayerNorm
from headrace_engine.native.calls import Layers
from headrace_engine.weights import WeightSource

AttentionBias = Callable[[int], torch.Tensor]
"""From the tokens of the longest sequence, L, to the bias by position of all scores, [num_heads, L, L]."""

BERT_LAYER = LayerNames(
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    attended="attention.output.dense",
    attended_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm="output.LayerNorm",
)
IGNORED = (
    "embeddings.position_ids",  # a constant 0, 1, 2, … that old versions of transformers saved
    "pooler.",  # reads the first token for next-sentence prediction; sentence pooling takes the encoder's rows instead
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """What shapes a BERT, or a model of its kind.

    Attributes:
        family: config.json's model_type.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder.
        vocab_size: Token ids are below it.
        positions: The rows of the table of positions that a sequence uses, that of its first token first.
        num_segments: Segment ids are below it.
        has_segments: Whether there is a table of segments; where there is none, num_segments is 1.
        num_layers: How many layers.
        layer: The sizes of each.
        layers: What stands before a layer's number in its tensors' names.
        names: What follows.
        take_bias: Takes what makes the bias of attention scores; None where they get none.
    """

    family: str
    prefixes: tuple[str, ...]
    ignored: tuple[str, ...]
    vocab_size: int
    positions: range
    num_segments: int = 1
    has_segments: bool = True
    num_layers: int
    layer: LayerConfig
    layers: str = "encoder.layer"
    names: LayerNames = BERT_LAYER
    take_bias: Callable[[WeightSource, int], AttentionBias] | None = None

    @property
    def hidden_size(self) -> int:
        """D, the width of a token's row."""
        return self.layer.hidden_size

    @property
    def intermediate_size(self) -> int:
        """The width inside the feed-forward part."""
        return self.layer.intermediate_size

    @property
    def max_positions(self) -> int:
        """The longest sequence there are positions for."""
        return len(self.positions)

    @classmethod
    def read(cls, document: Document) -> "BertConfig":
        """Read the fields of a BERT.

        Raises:
            CheckpointError: One is missing or contradicts another.
            UnsupportedModel: One asks for a variant that the encoder does not compute.
        """
        refuse_variants(document)
        return cls(
            family="bert",
            prefixes=("bert.", "model."),
            ignored=(*IGNORED, "cls."),  # the heads of pre-training, which read the encoder's rows and change none
            vocab_size=document.require_size("vocab_size"),
            positions=read_positions(document, 0),
            num_segments=document.require_size("type_vocab_size"),
            num_layers=document.require_size("num_hidden_layers", MAX_LAYERS),
            layer=LayerConfig.read(document),
        )

    def load(self, weights: WeightSource) -> "BertEncoder":
        """Take the encoder's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        layers = [
            BertLayer.take(weights, f"{self.layers}.{index}", self.layer, self.names)
            for index in range(self.num_layers)
        ]
        return BertEncoder(
            embeddings=BertEmbeddings.take(weights, self),
            layers=layers,
            whole=_whole(layers),
            bias=None if self.take_bias is None else self.take_bias(weights, self.max_positions),
            shapes=(self.layer.shape,),
        )


def refuse_variants(document: Document) -> None:
    """Refuse what versions of BERT and RoBERTa compute otherwise.

    Raises:
        UnsupportedModel: Names the field and its value.
    """
    positions = document.with_defaults({"position_embedding_type": "absolute"}).require("position_embedding_type", str)
    if positions != "absolute":
        message = (
            f"{document.path}: position_embedding_type={positions!r} is not supported: use a model with 'absolute'"
        )
        raise UnsupportedModel(message)
    if document.get("is_decoder", bool):
        message = f"{document.path}: is_decoder=true is not supported: use a model whose tokens see both sides"
        raise UnsupportedModel(message)


def read_positions(document: Document, first: int) -> range:
    """The rows of the table of positions that a sequence uses: all from `first` on.

    Raises:
        CheckpointError: There is none.
    """
    num_positions = document.require_size("max_position_embeddings")
    if not 0 <= first < num_positions:
        message = (
            f"{document.path}: max_position_embeddings={num_positions} leaves no position, since sequences begin at "
            f"{first}: take the file from the original checkpoint"
        )
        raise CheckpointError(message)
    return range(first, num_positions)


@dataclass(frozen=True, slots=True, eq=False)
class BertEmbeddings:
    """Token + segment + position, normalised.

    Attributes:
        tokens: [vocab_size, D].
        positions: [max_positions, D], the row of a sequence's first token first.
        segments: [num_segments, D], or None.
        norm: Of D.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    segments: torch.Tensor | None
    norm: LayerNorm

    @classmethod
    def take(cls, weights: WeightSource, config: BertConfig) -> "BertEmbeddings":
        """Take the tables.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        width, used, num_segments = config.hidden_size, config.positions, config.num_segments
        positions = weights.take("embeddings.position_embeddings.weight", used.stop, width)
        segments = "embeddings.token_type_embeddings.weight"
        return cls(
            tokens=weights.take("embeddings.word_embeddings.weight", config.vocab_size, width),
            positions=positions[used.start :],
            segments=weights.take(segments, num_segments, width) if config.has_segments else None,
            norm=LayerNorm.take(weights, "embeddings.LayerNorm", width, config.layer.eps),
        )

    def __call__(self, batch: RaggedBatch) -> torch.Tensor:
        """Ids to rows: [T, D] in the compute dtype."""
        if self.norm.own is not None:
            lookups = (
                (self.tokens, batch.token_ids),
                (self.positions, batch.positions),
                (self.segments, batch.segment_ids),
            )
            return self.norm.own.embed(lookups, self.norm.weight, self.norm.bias, self.norm.eps)
        rows = F.embedding(batch.token_ids, self.tokens)
        if self.segments is not None:
            ids = batch.segment_ids
            rows = rows + (self.segments[0] if ids is None else F.embedding(ids, self.segments))
        return self.norm(rows + F.embedding(batch.positions, self.positions))


@dataclass(frozen=True, slots=True, eq=False)
class BertEncoder:
    """Embeddings, then layers, over all tokens of a batch at once.

    Attributes:
        embeddings: Ids to rows.
        layers: Rows to rows.
        whole: All layers in one call; None where our own kernels do not compute all of them.
        bias: Makes the bias of attention scores, once for all layers; None where they get none.
        shapes: What the layers ask of attention.
    """

    embeddings: BertEmbeddings
    layers: list[BertLayer]
    whole: Layers | None
    bias: AttentionBias | None
    shapes: tuple[AttentionShape, ...]

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""
        rows = self.embeddings(batch)
        if self.whole is not None and isinstance(attention, RaggedAttention):
            return self.whole(rows, attention.cu_seqlens)
        bias = None if self.bias is None else self.bias(batch.max_seqlen)
        for layer in self.layers:
            rows = layer(rows, attention, bias)
        return rows


def _whole(layers: list[BertLayer]) -> Layers | None:
    own = layers[0].norm.own
    parts = [part for layer in layers if (part := layer.parts) is not None]
    return own.layers(parts) if own is not None and len(parts) == len(layers) else None
