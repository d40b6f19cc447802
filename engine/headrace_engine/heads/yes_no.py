"""The odds of "yes" against "no" as the next token, which score a pair (Qwen3-Reranker, arXiv:2506.05176).

It knows which two tokens, how a pair becomes the text that asks for them, and the arithmetic. It does not know which
activation a caller wants: `finish_scores` applies it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.batch import RaggedBatch
from headrace_engine.document import Document
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.heads.answer_tokens import AnswerTokens
from headrace_engine.heads.chat_template import ChatTemplate
from headrace_engine.heads.pair_text import read_pair_text
from headrace_engine.models import Encoder, EncoderConfig
from headrace_engine.models.qwen3 import Qwen3Encoder
from headrace_engine.modules import Modules
from headrace_engine.output import Dtype, ScoreActivation
from headrace_engine.pair_template import PairTemplate
from headrace_engine.pooling import Pooling, last_token_rows
from headrace_engine.score_activation import find_activation
from headrace_engine.weights import WeightSource

_TOKEN_HEAD = "lm_head.weight"  # noqa: S105 - the name of a tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNoConfig:
    """What a checkpoint says of the head.

    Attributes:
        answers: The tokens whose logits count.
        chat: How a pair becomes one text.
        activation: What makes a score of a logit.
        vocab_size: The rows of the token head.
        hidden_size: D, the width of a token's row.
        is_tied: Whether the token head is the encoder's embedding.
        files: Those that say all this, besides config.json and the tokenizer's.
        task: What the rows are.
        dim: One score.
        include_prompt: The pair is read as a whole.
        normalize: Scores have no length.
        dtypes: What scores are sent in.
        pooling: The next token is read off the last.
    """

    answers: AnswerTokens
    chat: ChatTemplate
    activation: ScoreActivation
    vocab_size: int
    hidden_size: int
    is_tied: bool
    files: tuple[Path, ...]
    task: Literal["score"] = "score"
    dim: int = 1
    include_prompt: bool = True
    normalize: bool = False
    dtypes: tuple[Dtype, ...] = ("f32",)
    pooling: Pooling = "last_token"

    @property
    def pooling_source(self) -> str:
        """The file and field that say so."""
        return self.answers.source

    @property
    def pair_template(self) -> PairTemplate:
        """How a pair becomes one text."""
        return self.chat.pair

    @property
    def prompts(self) -> Mapping[str, str]:
        """The instruction that stands in the text if the caller gives none, under the name "default"."""
        return MappingProxyType({} if self.chat.instruction is None else {"default": self.chat.instruction})

    @classmethod
    def read(cls, modules: Modules, config: EncoderConfig) -> "YesNoConfig":
        """Read which tokens answer, and how a pair is asked about.

        Raises:
            CheckpointError: A file or field is missing or contradicts another.
            UnsupportedModel: The family has no such head, or how a pair becomes one text is unknown.
        """
        document = Document.read(modules.transformer / "config.json")
        if config.family != "qwen3":
            message = f"{document.path}: model_type={config.family!r} has no token head here: use a model of: qwen3"
            raise UnsupportedModel(message)
        answers = AnswerTokens.read(modules, config.vocab_size)
        found = find_activation(modules, document)
        return cls(
            answers=answers,
            chat=read_pair_text(modules, are_yes_and_no=answers.are_yes_and_no),
            activation=found.activation,
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            is_tied=document.get("tie_word_embeddings", bool) is True,
            files=(*found.files, *answers.files),
        )

    def load(self, weights: WeightSource, encoder: Encoder, device: torch.device) -> "YesNo":  # noqa: ARG002 - heads that need it share this signature
        """Take the two rows of the token head.

        Raises:
            CheckpointError: The token head is missing, misshapen, or tied and yet another than the embedding.
        """
        rows = self._take_rows(weights, encoder).float()
        return YesNo(rows[:1] if self.answers.false_id is None else rows[:1] - rows[1:])

    def _take_rows(self, weights: WeightSource, encoder: Encoder) -> torch.Tensor:
        ids, shape = self.answers.ids, (self.vocab_size, self.hidden_size)
        if not self.is_tied:
            return weights.take(_TOKEN_HEAD, *shape)[ids]
        rows = _embedding(encoder)[ids]
        # transformers 4 would take the embedding, and 5 the token head; they are the same unless a file is wrong.
        if weights.has(_TOKEN_HEAD) and not weights.take(_TOKEN_HEAD, *shape)[ids].equal(rows):
            message = (
                f"tensor {_TOKEN_HEAD} is not the embedding, and tie_word_embeddings=true says that it is: "
                "take all files from one checkpoint"
            )
            raise CheckpointError(message)
        return rows


def _embedding(encoder: Encoder) -> torch.Tensor:
    match encoder:
        case Qwen3Encoder():
            return encoder.tokens
        case _:
            message = f"{type(encoder).__name__} has no embedding that a token head could share: use a qwen3"
            raise UnsupportedModel(message)


@dataclass(frozen=True, slots=True, eq=False)
class YesNo:
    """The head with its tensors.

    Attributes:
        weight: [1, D] float32, the row of the token head that counts for a pair, less the one that counts against it.
    """

    weight: torch.Tensor

    def __call__(self, hidden: torch.Tensor, batch: RaggedBatch) -> torch.Tensor:
        """[T, D] → [N, 1] float32, without the activation."""
        return F.linear(last_token_rows(hidden, batch.cu_seqlens), self.weight)
