"""How many tokens a checkpoint takes, and which file says so.

The truncation in tokenizer.json is never consulted: it is left over from training runs and often wrong (the tokenizer
of all-MiniLM-L6-v2 says 128, the model 256). This module knows three files and nothing of tokenizing.
"""

from dataclasses import dataclass
from pathlib import Path

from headrace_engine.document import Document
from headrace_engine.errors import CheckpointError

# Transformers writes 10^30 where a tokenizer has no limit.
_SANE = 1_000_000


@dataclass(frozen=True, slots=True)
class MaxLength:
    """A number of tokens, special tokens included, and where it came from.

    Attributes:
        tokens: The most tokens of a sequence.
        source: The file and field that say so.
    """

    tokens: int
    source: str

    @classmethod
    def read(cls, directory: Path, max_positions: int) -> "MaxLength":
        """Read the limit as sentence-transformers does, and keep it within the model's positions.

        Args:
            directory: Where the encoder and its tokenizer are.
            max_positions: The positions the encoder has embeddings for.

        Raises:
            CheckpointError: A file holds a limit that is no positive integer.
        """
        positions = cls(max_positions, "config.json max_position_embeddings")
        stated = cls._stated(directory / "sentence_bert_config.json", "max_seq_length")
        stated = stated or cls._stated(directory / "tokenizer_config.json", "model_max_length")
        return stated if stated is not None and stated.tokens < max_positions else positions

    @classmethod
    def _stated(cls, path: Path, field: str) -> "MaxLength | None":
        if not path.exists():
            return None
        document = Document.read(path)
        # A tokenizer without a limit may state it as a float.
        stated = document.get(field, float)
        if stated is None or stated >= _SANE:
            return None
        if stated < 1 or not stated.is_integer():
            message = f"{path}: {field}={stated} is no number of tokens: correct the file"
            raise CheckpointError(message)
        return cls(int(stated), f"{path.name} {field}")
