"""The tokens that a language model answers with when it is asked about a pair.

It knows LogitScore of sentence-transformers (cross_encoder/modules/logit_score.py, version 6.2), and what its
CrossEncoder takes where there is none. It does not know how the model is asked, nor what their logits become.
"""

from dataclasses import dataclass
from pathlib import Path

from headrace_engine.document import Document, shown
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.modules import Modules


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTokens:
    """Two tokens, or one.

    Attributes:
        true_id: The one whose logit counts for a pair.
        false_id: The one whose logit counts against it; None for none.
        are_yes_and_no: Whether they are those words.
        source: The file and field that say so.
        files: Those that say so, besides modules.json and the tokenizer's.
    """

    true_id: int
    false_id: int | None
    are_yes_and_no: bool
    source: str
    files: tuple[Path, ...]

    @property
    def ids(self) -> list[int]:
        """The tokens, the one that counts for a pair first."""
        return [self.true_id] if self.false_id is None else [self.true_id, self.false_id]

    @classmethod
    def read(cls, modules: Modules, vocab_size: int) -> "AnswerTokens":
        """Read LogitScore's file, or take "yes" and "no" where there is no modules.json.

        Raises:
            CheckpointError: A file or field is missing, or an id is outside the vocabulary.
            UnsupportedModel: The chain goes on after LogitScore, or there are no such words.
        """
        words = _ids(modules.transformer / "tokenizer.json", "yes", "no")
        answers = cls._of_words(modules, words) if modules.steps is None else cls._of_module(modules, words)
        outside = [token for token in answers.ids if not 0 <= token < vocab_size]
        if outside:
            message = (
                f"{modules.transformer}: token {outside[0]} of {answers.source} is outside the vocabulary of "
                f"{vocab_size}: take all files from one checkpoint"
            )
            raise CheckpointError(message)
        return answers

    @classmethod
    def _of_words(cls, modules: Modules, words: list[int | None]) -> "AnswerTokens":
        true_id, false_id = words
        if true_id is None or false_id is None:
            message = (
                f'{modules.transformer / "tokenizer.json"}: "yes" and "no" are not both tokens: use a model whose '
                "modules.json names others in LogitScore"
            )
            raise UnsupportedModel(message)
        return cls(
            true_id=true_id,
            false_id=false_id,
            are_yes_and_no=True,
            source="architectures in config.json",
            files=(),
        )

    @classmethod
    def _of_module(cls, modules: Modules, words: list[int | None]) -> "AnswerTokens":
        steps = modules.steps or ()
        if [step.kind for step in steps] != ["LogitScore"]:
            message = f"{modules.file}: the chain {modules.chain} is not supported: use a model that ends in LogitScore"
            raise UnsupportedModel(message)
        document = Document.read(steps[0].directory / "config.json")
        true_id, false_id = document.require("true_token_id", int), document.get("false_token_id", int)
        return cls(
            true_id=true_id,
            false_id=false_id,
            are_yes_and_no=[true_id, false_id] == words,
            source=f"{steps[0].directory.name}/config.json",
            files=(document.path,),
        )


def _ids(tokenizer: Path, *tokens: str) -> list[int | None]:
    """The ids of whole tokens in tokenizer.json; None for what is none."""
    document = Document.read(tokenizer)
    added = [_entry(tokenizer, entry) for entry in document.get("added_tokens", list) or []]
    vocabulary = document.require("model", dict).get("vocab")
    # A Unigram model lists pairs instead; none of those that answer so has one.
    known = {**(vocabulary if isinstance(vocabulary, dict) else {}), **dict(added)}
    return [Document(tokenizer, known).get(token, int) for token in tokens]


def _entry(tokenizer: Path, entry: object) -> tuple[str, int]:
    if not isinstance(entry, dict):
        message = f"{tokenizer}: added_tokens has {shown(entry)} and should list objects: download the checkpoint again"
        raise CheckpointError(message)
    document = Document(tokenizer, entry)
    return document.require("content", str), document.require("id", int)
