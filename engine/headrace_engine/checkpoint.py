"""What a model directory says about itself.

It knows every file of a checkpoint except the tensors. It does not tokenise and does not compute: tokenizer.json is
handed on as bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace_engine.errors import CheckpointError
from headrace_engine.heads import HeadConfig, Task, read_head
from headrace_engine.max_length import MaxLength
from headrace_engine.models import EncoderConfig, read_config
from headrace_engine.modules import Modules
from headrace_engine.output import Dtype, ScoreActivation
from headrace_engine.pair_template import PairTemplate
from headrace_engine.pooling import Pooling
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
        transformer: The directory of the encoder, its weights and its tokenizer.
        encoder: What config.json says of the encoder.
        head: What follows the encoder.
        max_length: The most tokens of a sequence, special tokens included.
        max_length_source: The file and field that say so.
        prompts: Texts to put before an input, or to instruct a reranker with, by name.
        default_prompt: The name of the prompt to use when none is named.
        tokenizer_json: The tokenizer's file, byte for byte. Its own truncation and padding are to be switched off.
        revision: See `headrace_engine.revision`.
    """

    path: Path
    source: str
    transformer: Path
    encoder: EncoderConfig = field(repr=False)
    head: HeadConfig = field(repr=False)
    max_length: int
    max_length_source: str
    prompts: Mapping[str, str]
    default_prompt: str | None
    tokenizer_json: bytes = field(repr=False)
    revision: str

    @property
    def family(self) -> str:
        """The model family, config.json's model_type."""
        return self.encoder.family

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""
        return self.encoder.vocab_size

    @property
    def num_segments(self) -> int:
        """Segment ids are below it."""
        return self.encoder.num_segments

    @property
    def tasks(self) -> tuple[Task, ...]:
        """What the model can be asked for."""
        return (self.head.task,)

    @property
    def dim(self) -> int:
        """The dimensions of a vector before any cut; 1 for scores."""
        return self.head.dim

    @property
    def dtypes(self) -> tuple[Dtype, ...]:
        """What `finish` can make of the rows."""
        return self.head.dtypes

    @property
    def default_dtype(self) -> Dtype:
        """What the model's authors meant its rows to be read in."""
        return self.head.dtypes[0]

    @property
    def pooling(self) -> Pooling:
        """Which tokens a row is made of: "cls", "mean" or "last_token"."""
        return self.head.pooling

    @property
    def pooling_source(self) -> str:
        """The file and field that say so."""
        return self.head.pooling_source

    @property
    def include_prompt(self) -> bool:
        """Whether the tokens of a prompt take part in the pooling; if not, `pack` must be told how many they are."""
        return self.head.include_prompt

    @property
    def normalize(self) -> bool:
        """Whether the model ends in a Normalize module."""
        return self.head.normalize

    @property
    def activation(self) -> ScoreActivation | None:
        """What makes a score of a row; None where rows are vectors."""
        return self.head.activation

    @property
    def pair_template(self) -> PairTemplate | None:
        """How a pair becomes one text; None where the tokenizer joins pairs, or there are none."""
        return self.head.pair_template

    @classmethod
    def read(cls, path: Path, source: str) -> "Checkpoint":
        """Read a directory; the weights are hashed but not loaded.

        Args:
            path: The directory, as `resolve` finds it.
            source: What the user named it by.

        Raises:
            CheckpointError: A file or field is missing or cannot be read, or two contradict each other.
            UnsupportedModel: The engine cannot run it as its authors meant it.
        """
        try:
            return cls._read(path, source)
        except OSError as error:
            # A folder where a file should be, a name that is too long, what this user may not read.
            reason = error.strerror or str(error)
            message = f"{error.filename or path} cannot be read ({reason}): download the checkpoint again"
            raise CheckpointError(message) from error

    @classmethod
    def _read(cls, path: Path, source: str) -> "Checkpoint":
        modules = Modules.read(path)
        directory = modules.transformer
        encoder = read_config(directory)
        head = read_head(modules, encoder)
        prompts = Prompts.read(path)
        max_length = MaxLength.read(directory, encoder.max_positions)
        return cls(
            path=path,
            source=source,
            transformer=directory,
            encoder=encoder,
            head=head,
            max_length=max_length.tokens,
            max_length_source=max_length.source,
            prompts={**head.prompts, **prompts.texts},
            default_prompt=prompts.default or next(iter(head.prompts), None),
            tokenizer_json=read_tokenizer(directory),
            revision=revision(path, [directory / "config.json", *head.files, *weight_files(directory)]),
        )
