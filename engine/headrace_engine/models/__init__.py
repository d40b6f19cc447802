"""The model families, and the little that the rest of the engine knows of them.

A family is one module with a configuration read from config.json and an encoder. This module picks the family; it
computes nothing. README.md tells how to add one.
"""

from pathlib import Path
from typing import Protocol, TypeAlias

import torch

from headrace_engine.attention import Attention
from headrace_engine.batch import RaggedBatch
from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models.bert import BertConfig, BertEncoder

# A union, once there is a second family.
EncoderConfig: TypeAlias = BertConfig


class Encoder(Protocol):
    """A model without its pooling."""

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""


def read_config(directory: Path) -> EncoderConfig:
    """Read config.json with the family it names.

    Raises:
        CheckpointError: The file or a field is missing.
        UnsupportedModel: The family, or a setting of it, is unknown.
    """
    document = Document.read(directory / "config.json")
    match document.require("model_type", str):
        case "bert":
            return BertConfig.read(document)
        case family:
            message = f"{document.path}: model_type={family!r} is not supported: use a model of one of these: bert"
            raise UnsupportedModel(message)


def load_encoder(directory: Path, config: EncoderConfig, dtype: torch.dtype) -> Encoder:
    """Load the weights beside a configuration.

    Raises:
        CheckpointError: A tensor is missing, unused or misshapen.
    """
    return BertEncoder.load(directory, config, dtype)
