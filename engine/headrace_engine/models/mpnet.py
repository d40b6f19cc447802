"""MPNet (Song et al., arXiv:2004.09297).

Its arithmetic is that of a BERT without segments whose attention scores get a bias by distance. It knows that bias, its
own names of tensors, and that positions begin at 2, whatever the pad token: see `headrace_engine.models.roberta`.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch

from headrace_engine.document import MAX_LAYERS, Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models.bert import IGNORED, BertConfig, read_positions
from headrace_engine.models.bert_layer import LayerConfig, LayerNames
from headrace_engine.weights import WeightSource

_LAYER = LayerNames(
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    attended="attention.attn.o",
    attended_norm="attention.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm="output.LayerNorm",
)
_FIRST_POSITION = 2
# The model's own code has these as constants, the first beside a field of config.json.
_NUM_BUCKETS = 32
_MAX_DISTANCE = 128


def read_mpnet(document: Document) -> BertConfig:
    """Read the fields of config.json.

    Raises:
        CheckpointError: One is missing or contradicts another.
        UnsupportedModel: One asks for a variant that the encoder does not compute.
    """
    document = document.with_defaults({"relative_attention_num_buckets": _NUM_BUCKETS})
    num_buckets = document.require("relative_attention_num_buckets", int)
    if num_buckets != _NUM_BUCKETS:
        message = (
            f"{document.path}: relative_attention_num_buckets={num_buckets} is not supported: "
            f"use a model with {_NUM_BUCKETS}"
        )
        raise UnsupportedModel(message)
    layer = LayerConfig.read(document, has_position_bias=True)
    return BertConfig(
        family="mpnet",
        prefixes=("mpnet.",),
        ignored=(*IGNORED, "lm_head."),  # of pre-training, which reads the encoder's rows and changes none
        vocab_size=document.require_size("vocab_size"),
        positions=read_positions(document, _FIRST_POSITION),
        has_segments=False,
        num_layers=document.require_size("num_hidden_layers", MAX_LAYERS),
        layer=layer,
        names=_LAYER,
        take_bias=partial(RelativeBias.take, layer.num_heads),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RelativeBias:
    """What is added to a score for the distance between key and query.

    Attributes:
        by_distance: [num_heads, 2·max_positions − 1], for key − query from 1 − max_positions up.
    """

    by_distance: torch.Tensor

    @classmethod
    def take(cls, num_heads: int, weights: WeightSource, max_positions: int) -> "RelativeBias":
        """Take the table of buckets, and spread it over all distances.

        Raises:
            CheckpointError: It is missing or misshapen.
        """
        table = weights.take("encoder.relative_attention_bias.weight", _NUM_BUCKETS, num_heads)
        # Found on the CPU, so that every device has the same distances in a bucket.
        buckets = bucket(torch.arange(1 - max_positions, max_positions)).to(table.device)
        return cls(table[buckets].T.contiguous())

    def __call__(self, max_seqlen: int) -> torch.Tensor:
        """The bias of L tokens, [num_heads, L, L] in the compute dtype: by head, query and key."""
        middle = self.by_distance.shape[1] // 2
        near = self.by_distance[:, middle - max_seqlen + 1 : middle + max_seqlen]
        # The row of a query is a window on the distances, which slides to the left from one query to the next.
        return near.unfold(1, max_seqlen, 1).flip(1)


def bucket(distances: torch.Tensor) -> torch.Tensor:
    """The bucket of each distance, key − query: [n] int64 → [n] int64.

    Half of the buckets are for keys after the query. In each half, half are for one distance each, and the rest widen
    with its logarithm up to the last, which has all from 128 on.
    """
    half = _NUM_BUCKETS // 2
    exact = half // 2
    away = distances.abs()
    widening = (away.clamp(min=1).float() / exact).log() / math.log(_MAX_DISTANCE / exact) * (half - exact)
    far = (exact + widening.long()).clamp(max=half - 1)
    return torch.where(away < exact, away, far) + half * (distances > 0)
