"""A model built by a blueprint: an encoder and a head of the engine, with random weights.

It knows how the engine's parts are put together without a checkpoint. It does not know how a model is run.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from headrace_engine.document import Document
from headrace_engine.heads import Head
from headrace_engine.heads.classification import Classification
from headrace_engine.heads.classifiers import read_classifier
from headrace_engine.heads.pipeline import Pipeline
from headrace_engine.limits import Limits
from headrace_engine.model import Model
from headrace_engine.models import FAMILIES, EncoderConfig

from gpu.blueprint import Blueprint
from gpu.weights import RandomWeights


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A model, and what its batches must keep to.

    Attributes:
        model: On one device, in one dtype.
        limits: Of its batches.
    """

    model: Model
    limits: Limits

    @classmethod
    def by(cls, blueprint: Blueprint, dtype: torch.dtype, device: torch.device) -> "Built":
        """Build a model; in float32 it is the reference of what it is in bfloat16."""
        document = Document(Path(f"{blueprint.name}'s config.json"), dict(blueprint.config))
        config = FAMILIES[document.require("model_type", str)](document)
        encoder = config.load(RandomWeights(dtype, device))
        limits = Limits(
            max_length=blueprint.max_length,
            max_length_source="the blueprint",
            vocab_size=config.vocab_size,
            num_segments=config.num_segments,
            include_prompt=blueprint.include_prompt,
        )
        return cls(Model(encoder, _head(blueprint, document, config, device)), limits)


def _head(blueprint: Blueprint, document: Document, config: EncoderConfig, device: torch.device) -> Head:
    if blueprint.pooling is not None:
        return Pipeline(blueprint.pooling, [])
    classifier = read_classifier(document, config)
    # The engine keeps these layers in float32 whatever the encoder's dtype.
    layers = classifier.take(RandomWeights(torch.float32, device))
    return Classification(classifier.pooling, classifier.pad_token_id, layers)
