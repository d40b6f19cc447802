"""The pooling a checkpoint asks for, in either schema of sentence-transformers.

    up to 5.3   {"word_embedding_dimension": 384, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true, …}
    from 5.4    {"embedding_dimension": 384, "pooling_mode": "mean", "include_prompt": true}

The source of both is sentence_transformers/sentence_transformer/modules/pooling.py, version 6.2. This module knows
names; it computes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from headrace_engine.document import Document, shown
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.pooling import Pooling

_MODES: Mapping[str, Pooling] = MappingProxyType(
    {
        "cls": "cls",
        "mean": "mean",
        "lasttoken": "last_token",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_lasttoken": "last_token",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingConfig:
    """What one Pooling module says.

    Attributes:
        pooling: Which pooling.
        source: The file and field that say so.
        dim: The dimensions it expects; None where nothing says.
        include_prompt: Whether the tokens of a prompt take part.
    """

    pooling: Pooling
    source: str
    dim: int | None
    include_prompt: bool

    @classmethod
    def read(cls, directory: Path | None) -> "PoolingConfig":
        """Read the configuration, or take sentence-transformers' default where there is no modules.json.

        Raises:
            CheckpointError: The file is missing or in neither schema.
            UnsupportedModel: It asks for a pooling that the engine does not have.
        """
        if directory is None:
            source = "default of sentence-transformers without modules.json"
            return cls(pooling="mean", source=source, dim=None, include_prompt=True)
        document = Document.read(directory / "config.json")
        names = _compact(document) or _booleans(document)
        if len(names) != 1 or names[0] not in _MODES:
            asked = " + ".join(names)
            message = f"{document.path}: pooling {asked} is not supported: use a model with cls, mean or lasttoken"
            raise UnsupportedModel(message)
        return cls(
            pooling=_MODES[names[0]],
            source=f"{directory.name}/config.json {_field(names[0])}",
            dim=document.get("embedding_dimension", int) or document.get("word_embedding_dimension", int),
            include_prompt=document.get("include_prompt", bool) is not False,
        )


def _field(name: str) -> str:
    return name if name.startswith("pooling_mode") else "pooling_mode"


def _compact(document: Document) -> list[str]:
    """The names in pooling_mode, one or a list; none where the file is of the older schema."""
    modes = document.values.get("pooling_mode")
    listed = modes if isinstance(modes, list) else [] if modes is None else [modes]
    return [mode if isinstance(mode, str) else shown(mode) for mode in listed]


def _booleans(document: Document) -> list[str]:
    """The pooling_mode_… fields that are true; mean where all are false, as in sentence-transformers."""
    fields = [field for field in document.values if field.startswith("pooling_mode_")]
    if not fields:
        message = (
            f"{document.path}: neither pooling_mode nor a pooling_mode_… field is there, so the schema is unknown: "
            "save the model again with sentence-transformers"
        )
        raise CheckpointError(message)
    return [field for field in fields if document.get(field, bool)] or ["pooling_mode_mean_tokens"]
