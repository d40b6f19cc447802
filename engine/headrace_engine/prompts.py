"""The prompts a checkpoint was trained with, from config_sentence_transformers.json.

It knows names and texts. Whoever tokenises puts a prompt before the text; the engine never sees it as such.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace_engine.document import Document, shown
from headrace_engine.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts to put before an input.

    Attributes:
        texts: Each by its name, such as "query".
        default: The name of the one to use when none is named.
    """

    texts: Mapping[str, str]
    default: str | None

    @classmethod
    def read(cls, path: Path) -> "Prompts":
        """Read the file, or take no prompts where there is none.

        Raises:
            CheckpointError: A prompt is no text, or the default is none of them.
        """
        file = path / "config_sentence_transformers.json"
        if not file.exists():
            return cls({}, None)
        document = Document.read(file)
        texts = document.get("prompts", dict) or {}
        if not all(isinstance(text, str) for text in texts.values()):
            message = f"{file}: prompts={shown(texts)} should map names to texts: correct the file"
            raise CheckpointError(message)
        default = document.get("default_prompt_name", str)
        if default is not None and default not in texts:
            message = (
                f"{file}: default_prompt_name={default!r} is none of the prompts {sorted(texts)}: correct the file"
            )
            raise CheckpointError(message)
        return cls(texts, default)
