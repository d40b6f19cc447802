"""A small cross-encoder for tests: random weights, so that scores differ, with MiniLM's tokenizer."""

import shutil
from pathlib import Path
from typing import Any

import torch
from headrace_engine import Engine

MAX_LENGTH = 64
# The model's embedding of this word is infinite.
POISON = "poison"


def save_scorer(minilm: Engine, directory: Path) -> Path:
    """Write it to a directory."""
    from transformers import BertConfig, BertForSequenceClassification  # noqa: PLC0415 - slow to import

    torch.manual_seed(3)
    sizes: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": 1}
    config = BertConfig(hidden_size=32, intermediate_size=48, max_position_embeddings=MAX_LENGTH, **sizes)
    model = BertForSequenceClassification(config)
    vocabulary = (minilm.checkpoint.path / "vocab.txt").read_text("utf-8").splitlines()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.2)
        model.bert.embeddings.word_embeddings.weight[vocabulary.index(POISON)] = torch.inf
    model.save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(minilm.checkpoint.path / name, directory)
    return directory
