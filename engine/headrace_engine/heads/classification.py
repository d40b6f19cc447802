"""The head of a …ForSequenceClassification model, which scores a pair.

It knows how many labels there may be, and how a logit comes of the encoder's rows. It does not know which activation a
caller wants: `finish_scores` applies it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch

from headrace_engine.batch import RaggedBatch
from headrace_engine.document import Document
from headrace_engine.errors import UnsupportedModel
from headrace_engine.heads.chat_template import ChatTemplate
from headrace_engine.heads.classifiers import Classifier, Layer, read_classifier
from headrace_engine.heads.pair_text import find_pair_text
from headrace_engine.models import Encoder, EncoderConfig
from headrace_engine.modules import Modules
from headrace_engine.output import Dtype, ScoreActivation
from headrace_engine.pair_template import PairTemplate
from headrace_engine.pooling import Pooling, pool
from headrace_engine.score_activation import find_activation
from headrace_engine.weights import WeightSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationConfig:
    """What a checkpoint says of the head.

    Attributes:
        classifier: What its family puts on top of the encoder.
        activation: What makes a score of a logit.
        chat: How a pair becomes one text; None where the tokenizer joins pairs.
        files: Those that say so, besides config.json and the tokenizer's.
        task: What the rows are.
        dim: One score.
        include_prompt: The pair is read as a whole.
        normalize: Scores have no length.
        dtypes: What scores are sent in.
    """

    classifier: Classifier
    activation: ScoreActivation
    chat: ChatTemplate | None
    files: tuple[Path, ...]
    task: Literal["score"] = "score"
    dim: int = 1
    include_prompt: bool = True
    normalize: bool = False
    dtypes: tuple[Dtype, ...] = ("f32",)

    @property
    def pooling(self) -> Pooling:
        """Which tokens the score is made of."""
        return self.classifier.pooling

    @property
    def pooling_source(self) -> str:
        """The file and field that say so."""
        return self.classifier.pooling_source

    @property
    def pair_template(self) -> PairTemplate | None:
        """How a pair becomes one text; None where the tokenizer joins pairs."""
        return None if self.chat is None else self.chat.pair

    @property
    def prompts(self) -> Mapping[str, str]:
        """The instruction that stands in the text if the caller gives none, under the name "default"."""
        instruction = None if self.chat is None else self.chat.instruction
        return MappingProxyType({} if instruction is None else {"default": instruction})

    @classmethod
    def read(cls, modules: Modules, config: EncoderConfig) -> "ClassificationConfig":
        """Read config.json, and what else names an activation.

        Raises:
            CheckpointError: A field is missing or of the wrong type.
            UnsupportedModel: The family has no such head, it gives more than one score, the activation is unknown, or a
                chat template does more than put text around the query and the document.
        """
        document = Document.read(modules.transformer / "config.json")
        _check_labels(document)
        found = find_activation(modules, document)
        return cls(
            classifier=read_classifier(document, config),
            activation=found.activation,
            chat=find_pair_text(modules),
            files=found.files,
        )

    def load(self, weights: WeightSource, encoder: Encoder, device: torch.device) -> "Classification":  # noqa: ARG002 - heads that need them share this signature
        """Take the head's tensors.

        Raises:
            CheckpointError: One is missing or misshapen.
        """
        classifier = self.classifier
        return Classification(classifier.pooling, classifier.pad_token_id, classifier.take(_InFloat32(weights)))


def _check_labels(document: Document) -> None:
    """Refuse all but one label, counted as transformers counts them: two where no field tells."""
    labels = document.get("id2label", dict)
    num_labels = document.get("num_labels", int)
    if labels is not None:
        found, count = f"id2label has {len(labels)} labels", len(labels)
    elif num_labels is not None:
        found, count = f"num_labels={num_labels}", num_labels
    else:
        found, count = "neither id2label nor num_labels is there, which means 2 labels", 2
    if count != 1:
        message = f"{document.path}: {found} and only 1 is supported: use a model that gives one score"
        raise UnsupportedModel(message)


@dataclass(frozen=True, slots=True)
class _InFloat32:
    # In bfloat16 half of 256 pairs shared a logit with another, though the encoder had told all apart; the layers are
    # small, and run over one row for each pair.
    weights: WeightSource
    product_dtype: torch.dtype = torch.float32

    def take(self, name: str, *shape: int) -> torch.Tensor:
        return self.weights.take(name, *shape).float()

    def has(self, name: str) -> bool:
        return self.weights.has(name)


@dataclass(frozen=True, slots=True, eq=False)
class Classification:
    """A head with its tensors.

    Attributes:
        pooling: Which tokens the score is made of.
        pad_token_id: See `Classifier`.
        layers: [N, D] to [N, 1], in float32.
    """

    pooling: Pooling
    pad_token_id: int | None
    layers: Sequence[Layer]

    def __call__(self, hidden: torch.Tensor, batch: RaggedBatch) -> torch.Tensor:
        """[T, D] → [N, 1] float32, without the activation."""
        if self.pad_token_id is None:
            rows = pool(hidden, batch.cu_seqlens, self.pooling)
        else:
            rows = hidden[_last_tokens(batch, self.pad_token_id)].float()
        for layer in self.layers:
            rows = layer(rows)
        return rows


def _last_tokens(batch: RaggedBatch, pad_token_id: int) -> torch.Tensor:
    """Where each sequence has its last token that is not the pad token, or its first if all are: [N] int64.

    Transformers looks for it so, since its batches are padded; a sequence may end in that token by itself.
    """
    starts, lengths = batch.cu_seqlens[:-1].long(), batch.cu_seqlens.diff()
    # Told its size, torch need not read the lengths back from a device to learn it.
    owners = torch.repeat_interleave(lengths, output_size=batch.num_tokens)
    meant = torch.where(batch.token_ids == pad_token_id, 0, batch.positions)
    return starts + torch.zeros_like(starts).scatter_reduce_(0, owners, meant, "amax")
