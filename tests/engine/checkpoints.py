"""Small checkpoints on disk, and the changes that tests make to them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

CONFIG: Mapping[str, Any] = {
    "model_type": "bert",
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 80,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}

# Its truncation and padding contradict every other file on purpose.
TOKENIZER: Mapping[str, Any] = {
    "version": "1.0",
    "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    "padding": {"strategy": {"Fixed": 3}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    "added_tokens": [],
    "normalizer": {"type": "BertNormalizer", "lowercase": True},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0}},
}


def write(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))


def edit(path: Path, **values: Any) -> None:
    """Set fields of a JSON file; None takes the field out."""
    merged = json.loads(path.read_text()) | values
    write(path, {field: value for field, value in merged.items() if value is not None})


def write_modules(path: Path, *types: str, prefix: str = "sentence_transformers.models") -> None:
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    write(
        path / "modules.json",
        [
            {"idx": index, "name": str(index), "path": paths.get(kind, f"{index}_{kind}"), "type": f"{prefix}.{kind}"}
            for index, kind in enumerate(types)
        ],
    )


def write_pooling(path: Path, **fields: Any) -> None:
    write_modules(path, "Transformer", "Pooling")
    write(path / "1_Pooling" / "config.json", fields)


def change_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    file = path / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
