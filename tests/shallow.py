"""MiniLM without its layers but the first: the same tokenizer, name and width, a fifth of the work, other vectors.

For tests that look at what a fleet does with an engine, and run thousands of tokens for it.
"""

import shutil
from pathlib import Path

from headrace_engine.resolve import resolve
from safetensors.torch import load_file, save_file

from .engine.checkpoints import edit

_WEIGHTS = "model.safetensors"
_LATER_LAYERS = tuple(f"encoder.layer.{layer}." for layer in range(1, 6))


def save_shallow(name: str, folder: Path) -> Path:
    """Write it to a new directory of the whole one's name, by which workers name what they serve."""
    whole, made = resolve(name), folder / name
    shutil.copytree(whole, made, ignore=lambda *_: {_WEIGHTS})
    edit(made / "config.json", num_hidden_layers=1)
    kept = load_file(whole / _WEIGHTS)
    save_file({name: rows for name, rows in kept.items() if not name.startswith(_LATER_LAYERS)}, made / _WEIGHTS)
    return made
