"""The model families, and the little that the rest of the engine knows of them.

A family is one module with a configuration read from config.json and an encoder. This module picks the family; it
computes nothing. README.md tells how to add one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import torch

from headrace_engine.attention import Attention, AttentionShape
from headrace_engine.batch import RaggedBatch
from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.models.bert import BertConfig
from headrace_engine.models.distilbert import read_distilbert
from headrace_engine.models.gemma3 import Gemma3Config
from headrace_engine.models.gte import GteConfig
from headrace_engine.models.modernbert import ModernBertConfig
from headrace_engine.models.mpnet import read_mpnet
from headrace_engine.models.nomic_bert import NomicBertConfig
from headrace_engine.models.qwen3 import Qwen3Config
from headrace_engine.models.roberta import read_roberta
from headrace_engine.weights import WeightSource


class Encoder(Protocol):
    """A model without its head."""

    @property
    def shapes(self) -> tuple[AttentionShape, ...]:
        """What its layers ask of attention, each kind once."""

    def __call__(self, batch: RaggedBatch, attention: Attention) -> torch.Tensor:
        """Encode a batch: [T, D] in the compute dtype, a row for each token."""


class EncoderConfig(Protocol):
    """What every family's configuration tells.

    Attributes:
        vocab_size: Token ids are below it.
        hidden_size: D, the width of a token's row.
        num_layers: How many layers.
        max_positions: The longest sequence that there are positions for.
        num_segments: Segment ids are below it; 1 where the family has none.
        prefixes: What may stand before the names of the encoder's tensors.
        ignored: Beginnings of the names of tensors that change no row of the encoder and may be left over.
    """

    @property
    def family(self) -> str:
        """config.json's model_type."""

    @property
    def vocab_size(self) -> int: ...  # noqa: D102 - described above, as the rest
    @property
    def hidden_size(self) -> int: ...  # noqa: D102
    @property
    def num_layers(self) -> int: ...  # noqa: D102
    @property
    def max_positions(self) -> int: ...  # noqa: D102
    @property
    def num_segments(self) -> int: ...  # noqa: D102
    @property
    def prefixes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def ignored(self) -> tuple[str, ...]: ...  # noqa: D102

    def load(self, weights: WeightSource) -> Encoder:
        """Take the encoder's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """


FAMILIES: Mapping[str, Callable[[Document], EncoderConfig]] = MappingProxyType(
    {
        "bert": BertConfig.read,
        "roberta": read_roberta,
        "xlm-roberta": read_roberta,
        "camembert": read_roberta,
        "distilbert": read_distilbert,
        "mpnet": read_mpnet,
        "modernbert": ModernBertConfig.read,
        "nomic_bert": NomicBertConfig.read,
        "gemma3_text": Gemma3Config.read,
        "gte": GteConfig.read,
        "new": GteConfig.read,
        "qwen3": Qwen3Config.read,
        "bidirectional_pplx_qwen3": Qwen3Config.read,
    }
)


def read_config(directory: Path) -> EncoderConfig:
    """Read config.json with the family it names.

    Raises:
        CheckpointError: The file or a field is missing.
        UnsupportedModel: The family, or a setting of it, is unknown.
    """
    document = Document.read(directory / "config.json")
    family = document.require("model_type", str)
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        message = f"{document.path}: model_type={family!r} is not supported: use a model of one of these: {known}"
        raise UnsupportedModel(message)
    return FAMILIES[family](document)
