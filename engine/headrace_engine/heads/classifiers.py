"""What each family of …ForSequenceClassification models puts on top of its encoder.

It knows the fields of config.json, the tensors' names and the order of the layers. It does not know which activation
makes a score of a logit. The source is the modeling file of each family in transformers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models import EncoderConfig
from headrace_engine.models.activations import read_activation
from headrace_engine.models.layers import LayerNorm, Linear
from headrace_engine.pooling import Pooling
from headrace_engine.weights import WeightSource

Layer = Callable[[torch.Tensor], torch.Tensor]
Take = Callable[[WeightSource], Sequence[Layer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """What stands on top of an encoder.

    Attributes:
        pooling: Which token's row is read, or the mean of all.
        pooling_source: The file and field that say so.
        pad_token_id: With "last_token", the id that is passed over in search of the last token; None is no id.
        take: Takes the layers from [N, D] to [N, 1], in their order.
    """

    pooling: Pooling
    pooling_source: str = "architectures in config.json"
    pad_token_id: int | None = None
    take: Take


def read_classifier(document: Document, config: EncoderConfig) -> Classifier:
    """Find out what a family puts on top.

    Raises:
        CheckpointError: A field is missing or of the wrong type.
        UnsupportedModel: The family has no such head here, or config.json asks for another variant.
    """
    if config.family not in _FAMILIES:
        message = (
            f"{document.path}: model_type={config.family!r} has no classification head here: "
            f"use a model of one of these: {', '.join(_FAMILIES)}"
        )
        raise UnsupportedModel(message)
    return _FAMILIES[config.family](document, config.hidden_size)


def _on_first_token(first: str, activation: Layer, last: str) -> Callable[[Document, int], Classifier]:
    def read(_: Document, width: int) -> Classifier:
        def take(weights: WeightSource) -> list[Layer]:
            return [Linear.take(weights, [first], width, width), activation, Linear.take(weights, [last], width, 1)]

        return Classifier(pooling="cls", take=take)

    return read


# What transformers' ModernBertConfig takes where the file leaves a field out.
_MODERNBERT_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "classifier_pooling": "cls",
        "classifier_activation": "gelu",
        "classifier_bias": False,
        "norm_bias": False,
        "norm_eps": 1e-5,
    }
)


def _read_modernbert(document: Document, width: int) -> Classifier:
    document = document.with_defaults(_MODERNBERT_DEFAULTS)
    activation = read_activation(document, "classifier_activation")
    eps = document.require("norm_eps", float)
    has_bias, has_norm_bias = document.require("classifier_bias", bool), document.require("norm_bias", bool)

    def take(weights: WeightSource) -> list[Layer]:
        return [
            Linear.take(weights, ["head.dense"], width, width, has_bias=has_bias),
            activation,
            LayerNorm.take(weights, "head.norm", width, eps, has_bias=has_norm_bias),
            Linear.take(weights, ["classifier"], width, 1),
        ]

    pooling = _read_modernbert_pooling(document)
    return Classifier(pooling=pooling, pooling_source="config.json classifier_pooling", take=take)


def _read_modernbert_pooling(document: Document) -> Pooling:
    match document.require("classifier_pooling", str):
        case "cls":
            return "cls"
        case "mean":
            return "mean"
        case name:
            message = f"{document.path}: classifier_pooling={name!r} is not supported: use a model with cls or mean"
            raise UnsupportedModel(message)


def _read_qwen3(document: Document, width: int) -> Classifier:
    def take(weights: WeightSource) -> list[Layer]:
        return [Linear.take(weights, ["score"], width, 1, has_bias=False)]

    return Classifier(pooling="last_token", pad_token_id=document.get("pad_token_id", int), take=take)


_read_bert = _on_first_token("pooler.dense", torch.tanh, "classifier")
_read_roberta = _on_first_token("classifier.dense", torch.tanh, "classifier.out_proj")
_FAMILIES: Mapping[str, Callable[[Document, int], Classifier]] = MappingProxyType(
    {
        "bert": _read_bert,
        "roberta": _read_roberta,
        "xlm-roberta": _read_roberta,
        "camembert": _read_roberta,
        "mpnet": _read_roberta,
        "distilbert": _on_first_token("pre_classifier", F.relu, "classifier"),
        "gte": _read_bert,
        "new": _read_bert,
        "modernbert": _read_modernbert,
        "qwen3": _read_qwen3,
    }
)
