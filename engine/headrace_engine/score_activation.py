"""Which activation makes a score of a logit, as sentence-transformers finds it.

It knows three fields, their order and their default. It computes nothing: `finish_scores` does. The source is
sentence_transformers/cross_encoder/model.py, version 6.2.
"""

from dataclasses import dataclass
from pathlib import Path

from headrace_engine.document import Document, shown
from headrace_engine.errors import UnsupportedModel
from headrace_engine.modules import Modules
from headrace_engine.output import ScoreActivation


@dataclass(frozen=True, slots=True)
class FoundActivation:
    """An activation and what says so.

    Attributes:
        activation: Which.
        files: Those that say so, besides config.json.
    """

    activation: ScoreActivation
    files: tuple[Path, ...]


def find_activation(modules: Modules, document: Document) -> FoundActivation:
    """Find the activation of a model with one score.

    Args:
        modules: Of the checkpoint.
        document: The encoder's config.json.

    Raises:
        CheckpointError: A field is of the wrong type.
        UnsupportedModel: It is another function.
    """
    if modules.steps is None:
        return FoundActivation(read_activation(document), ())
    # Newer versions save modules.json for cross-encoders too, and name the activation beside it.
    file = modules.file.parent / "config_sentence_transformers.json"
    named = Document.read(file).get("activation_fn", str) if file.is_file() else None
    if named is None:
        return FoundActivation(read_activation(document), (modules.file,))
    return FoundActivation(_known(file, "activation_fn", named), (modules.file, file))


def read_activation(document: Document) -> ScoreActivation:
    """Read the activation that config.json names; sigmoid where it names none.

    Raises:
        CheckpointError: A field is of the wrong type.
        UnsupportedModel: It is another function.
    """
    settings = document.get("sentence_transformers", dict) or {}
    if "activation_fn" in settings:
        field, named = "activation_fn", settings["activation_fn"]
    else:
        # The field of sentence-transformers before 4.0.
        field = "sbert_ce_default_activation_function"
        named = document.get(field, str)
    return _known(document.path, field, named) if named is not None else "sigmoid"


def _known(path: Path, field: str, named: object) -> ScoreActivation:
    # The package path before the class name differs between versions of torch.
    package, _, name = (named if isinstance(named, str) else shown(named)).rpartition(".")
    if package.split(".")[0] == "torch" and name == "Sigmoid":
        return "sigmoid"
    if package.split(".")[0] == "torch" and name == "Identity":
        return "identity"
    message = f"{path}: {field}={shown(named)} is not supported: use a model with Sigmoid or Identity of torch"
    raise UnsupportedModel(message)
