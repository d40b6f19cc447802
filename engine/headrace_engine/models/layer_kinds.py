"""Encoders that alternate layers of two kinds: some see the whole sequence, the others a window around each token.

It knows the fields of config.json that ModernBERT and Gemma 3 share, old and new. It does not know how wide a window
is, nor which layers are which where the file does not list them.
"""

from typing import Literal, get_args

from headrace_engine.document import Document, shown
from headrace_engine.errors import CheckpointError, UnsupportedModel
from headrace_engine.models.rotary import read_theta

LayerKind = Literal["full_attention", "sliding_attention"]
LAYER_KINDS: tuple[LayerKind, ...] = get_args(LayerKind)


def read_layer_kinds(document: Document, num_layers: int, every_field: str, *, first: bool) -> tuple[LayerKind, ...]:
    """The kind of each layer, as layer_types lists them, or else one that sees all in every so many layers.

    Args:
        document: config.json, with the default in `every_field`.
        num_layers: How many layers there are.
        every_field: The field of older files that says in how many layers one sees all.
        first: Whether it is the first of so many, or else the last.

    Raises:
        CheckpointError: layer_types lists more or fewer layers, or there is no such field.
        UnsupportedModel: layer_types names another kind.
    """
    listed = document.get("layer_types", list)
    if listed is None:
        return _alternate(document, num_layers, every_field, 0 if first else 1)
    unknown = [kind for kind in listed if kind not in LAYER_KINDS]
    if unknown:
        message = (
            f"{document.path}: layer_types has {shown(unknown[0])}, which is not supported: "
            f"use a model with these alone: {', '.join(LAYER_KINDS)}"
        )
        raise UnsupportedModel(message)
    if len(listed) != num_layers:
        message = (
            f"{document.path}: layer_types lists {len(listed)} layers and num_hidden_layers={num_layers}: "
            "take the file from the original checkpoint"
        )
        raise CheckpointError(message)
    return tuple(listed)


def _alternate(document: Document, num_layers: int, every_field: str, offset: int) -> tuple[LayerKind, ...]:
    every = document.require(every_field, int)
    if every < 1:
        message = f"{document.path}: {every_field}={every} is no number of layers: correct the file"
        raise CheckpointError(message)
    return tuple("sliding_attention" if (index + offset) % every else "full_attention" for index in range(num_layers))


def read_window(document: Document, field: str) -> int:
    """How far a token sees to either side: half of a field that counts both sides.

    Raises:
        CheckpointError: The field is missing or no size.
        UnsupportedModel: It leaves a token nothing but itself.
    """
    width = document.require_size(field)
    if width < 2:
        message = f"{document.path}: {field}={width} is not supported: use a model whose tokens see at least 2 others"
        raise UnsupportedModel(message)
    return width // 2


def read_kind_theta(document: Document, kind: LayerKind, old_field: str) -> float:
    """The base of the rotation in layers of one kind.

    Transformers 5 writes {"rope_parameters": {"full_attention": {"rope_theta": …}, …}}, and version 4 a field for each.

    Args:
        document: config.json, with the default in the old field.
        kind: Which layers.
        old_field: The field that holds it in files of version 4.

    Raises:
        CheckpointError: A field has another type.
        UnsupportedModel: The angles are scaled, or rope_parameters knows no kinds.
    """
    by_kind = document.get("rope_parameters", dict) or {}
    if by_kind and not by_kind.keys() & set(LAYER_KINDS):
        message = (
            f"{document.path}: rope_parameters={shown(by_kind)} is not supported: "
            f"use a model whose parameters stand under {' and '.join(LAYER_KINDS)}"
        )
        raise UnsupportedModel(message)
    parameters = Document(document.path, by_kind).get(kind, dict)
    theta = read_theta(document, parameters, document.get(old_field, float))
    # Files of version 4 scale under a name of its own; it is there to be refused.
    return read_theta(document, document.get("rope_scaling", dict), theta)
