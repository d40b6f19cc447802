"""What a model directory says about itself.

It knows every file of a checkpoint except the tensors. It does not tokenise and does not compute: tokenizer.json is
handed on as bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.max_length import MaxLength
from headrace_engine.models import read_config
from headrace_engine.modules import Modules
from headrace_engine.pooling import Pooling
from headrace_engine.pooling_config import PoolingConfig
from headrace_engine.prompts import Prompts
from headrace_engine.revision import revision
from headrace_engine.tokenizer_file import read_tokenizer
from headrace_engine.weights import weight_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The facts of one checkpoint; those that two files could give say which did.

    Attributes:
        path: Its directory.
        source: What the user named it by.
        family: The model family, config.json's model_type.
        dim: The dimensions of a vector before any cut.
        vocab_size: Token ids are below it.
        max_length: The most tokens of a sequence, special tokens included.
        max_length_source: The file and field that say so.
        pooling: "cls", "mean" or "last_token".
        pooling_source: The file and field that say so.
        normalize: Whether the model ends in a Normalize module.
        prompts: Texts to put before an input, by name.
        default_prompt: The name of the prompt to use when none is named.
        tokenizer_json: The tokenizer's file, byte for byte. Its own truncation and padding are to be switched off.
        revision: See `headrace_engine.revision`.
    """

    path: Path
    source: str
    family: str
    dim: int
    vocab_size: int
    max_length: int
    max_length_source: str
    pooling: Pooling
    pooling_source: str
    normalize: bool
    prompts: Mapping[str, str]
    default_prompt: str | None
    tokenizer_json: bytes = field(repr=False)
    revision: str

    @property
    def tasks(self) -> tuple[Literal["embed", "score"], ...]:
        """What the model can be asked for."""
        return ("embed",)

    @classmethod
    def read(cls, path: Path, source: str) -> "Checkpoint":
        """Read a directory; the weights are hashed but not loaded.

        Args:
            path: The directory, as `resolve` finds it.
            source: What the user named it by.

        Raises:
            CheckpointError: A file or field is missing, or two contradict each other.
            UnsupportedModel: The engine cannot run it as its authors meant it.
        """
        modules = Modules.read(path)
        directory = modules.transformer
        config = read_config(directory)
        pooling = PoolingConfig.read(modules.pooling)
        _check_dim(path, pooling, config.hidden_size)
        prompts = Prompts.read(path)
        _check_prompts(path, pooling, prompts)
        max_length = MaxLength.read(directory, config.max_positions)
        return cls(
            path=path,
            source=source,
            family=config.family,
            dim=config.hidden_size,
            vocab_size=config.vocab_size,
            max_length=max_length.tokens,
            max_length_source=max_length.source,
            pooling=pooling.pooling,
            pooling_source=pooling.source,
            normalize=modules.normalize,
            prompts=prompts.texts,
            default_prompt=prompts.default,
            tokenizer_json=read_tokenizer(directory),
            revision=revision(path, _hashed_files(path, modules)),
        )


def _check_dim(path: Path, pooling: PoolingConfig, hidden_size: int) -> None:
    if pooling.dim not in {None, hidden_size}:
        message = (
            f"{path}: pooling expects {pooling.dim} dimensions and config.json gives {hidden_size}: "
            "take both from one checkpoint"
        )
        raise CheckpointError(message)


def _hashed_files(path: Path, modules: Modules) -> list[Path]:
    files = [modules.transformer / "config.json"]
    if modules.pooling is not None:
        files += [path / "modules.json", modules.pooling / "config.json"]
    return files + weight_files(modules.transformer)


def _check_prompts(path: Path, pooling: PoolingConfig, prompts: Prompts) -> None:
    # The batch does not say which tokens are the prompt's, so they cannot be left out of the pooling.
    if any(prompts.texts.values()) and not pooling.include_prompt:
        message = (
            f"{path}: include_prompt=false with prompts {sorted(prompts.texts)} is not supported: use another model"
        )
        raise UnsupportedModel(message)
