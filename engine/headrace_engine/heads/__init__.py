"""What follows the encoder: from one row for each token to one row for each sequence.

    pipeline         the modules of sentence-transformers: Pooling, then Dense and Normalize in their order
    classification   the head of a …ForSequenceClassification model, which scores a pair
    yes_no           the odds of "yes" against "no" as the next token, which score a pair too

This module knows which checkpoint has which head. It computes nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

import torch

from headrace_engine.batch import RaggedBatch
from headrace_engine.document import Document, shown
from headrace_engine.errors import UnsupportedModel
from headrace_engine.heads.classification import ClassificationConfig
from headrace_engine.heads.pipeline import PipelineConfig
from headrace_engine.heads.yes_no import YesNoConfig
from headrace_engine.models import Encoder, EncoderConfig
from headrace_engine.modules import Modules
from headrace_engine.output import Dtype, ScoreActivation
from headrace_engine.pair_template import PairTemplate
from headrace_engine.pooling import Pooling
from headrace_engine.weights import WeightSource

Task = Literal["embed", "score"]


class Head(Protocol):
    """A head with its tensors."""

    def __call__(self, hidden: torch.Tensor, batch: RaggedBatch) -> torch.Tensor:
        """[T, D] in the compute dtype → [N, dim] float32, in packed order.

        It may be captured in a CUDA graph: it waits for nothing, and no shape depends on a value.
        """


class HeadConfig(Protocol):
    """What a checkpoint says of its head, before any tensor is read."""

    @property
    def task(self) -> Task:
        """What the rows are."""

    @property
    def dim(self) -> int:
        """The dimensions of a row; 1 for scores."""

    @property
    def pooling(self) -> Pooling:
        """Which tokens a row is made of."""

    @property
    def pooling_source(self) -> str:
        """The file and field that say so."""

    @property
    def include_prompt(self) -> bool:
        """Whether the tokens of a prompt take part in the pooling."""

    @property
    def normalize(self) -> bool:
        """Whether the rows end up with length 1, which `finish` sees to."""

    @property
    def dtypes(self) -> tuple[Dtype, ...]:
        """What `finish` can make of the rows; the first is what the model's authors meant."""

    @property
    def activation(self) -> ScoreActivation | None:
        """What makes a score of a row; None where rows are vectors."""

    @property
    def pair_template(self) -> PairTemplate | None:
        """How a pair becomes one text; None where the tokenizer joins pairs."""

    @property
    def prompts(self) -> Mapping[str, str]:
        """Prompts that come with the head; those of the checkpoint go before."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files besides the encoder's, which count for the revision."""

    def load(self, weights: WeightSource, encoder: Encoder, device: torch.device) -> Head:
        """Take the head's tensors, after the encoder has taken its own.

        Raises:
            CheckpointError: One is missing or misshapen.
        """


def read_head(modules: Modules, config: EncoderConfig) -> HeadConfig:
    """Find out which head a checkpoint has: from modules.json, or else from config.json's architectures.

    Raises:
        CheckpointError: A file or field is missing.
        UnsupportedModel: The head is none that the engine has, or it does not fit its encoder.
    """
    steps = modules.steps or ()
    document = Document.read(modules.transformer / "config.json")
    architectures = document.get("architectures", list) or [""]
    architecture = architectures[0] if isinstance(architectures[0], str) else shown(architectures[0])
    if steps and steps[0].kind == "Pooling" and not _is_cross_encoder(modules):
        return PipelineConfig.read(modules, config)
    if (steps and steps[0].kind == "LogitScore") or (not steps and architecture.endswith("ForCausalLM")):
        return YesNoConfig.read(modules, config)
    if not steps and architecture.endswith("ForSequenceClassification"):
        return ClassificationConfig.read(modules, config)
    if modules.steps is None:
        return PipelineConfig.read(modules, config)
    message = (
        f"{modules.file}: the chain {modules.chain} cannot be run: use a model with Transformer → Pooling, then any of "
        "Dense and Normalize; or with Transformer → LogitScore; or with a …ForSequenceClassification alone"
    )
    raise UnsupportedModel(message)


def _is_cross_encoder(modules: Modules) -> bool:
    # A chain of Pooling and Dense may end in a score, which only this file tells from a vector.
    file = modules.file.parent / "config_sentence_transformers.json"
    return file.is_file() and Document.read(file).get("model_type", str) == "CrossEncoder"
