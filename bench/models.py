"""The models that are measured, as directories that every contender reads.

It knows two: an embedder of real weights, all-MiniLM-L6-v2 with its limit raised to the positions that it has, so that
512 tokens can be measured; and a reranker of the same encoder, the shape of ms-marco-MiniLM-L6-v2, whose head is drawn
from a seed, since no package carries the weights of one. Speed does not depend on what a head's numbers are; that they
are the same for all makes scores comparable. It knows no contender.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from headrace_engine.modules import Modules
from headrace_engine.resolve import resolve
from safetensors.torch import load_file, save_file

_SEED = 0
# Logits of real rerankers spread over some units around 0: a head that gave all pairs the same would hide errors.
_LOGIT_SPREAD = 24.0


@dataclass(frozen=True, slots=True)
class Models:
    """The two directories.

    Attributes:
        embedder: A sentence-transformers model.
        scorer: A BertForSequenceClassification with one label.
    """

    embedder: Path
    scorer: Path


def prepare(model: str, work: Path, max_length: int) -> Models:
    """Make both directories, anew each time: it takes a moment.

    Args:
        model: A BERT embedder, as the engine takes it: a directory, a package or a hub id.
        work: Where to put them.
        max_length: Tokens of the longest text, within the model's positions.
    """
    source = resolve(model).resolve()
    embedder, scorer = work / "embedder", work / "scorer"
    for directory in (embedder, scorer):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, embedder)
    transformer = Modules.read(embedder).transformer
    _raise_limit(transformer, max_length)
    _make_scorer(transformer, scorer, max_length)
    return Models(embedder, scorer)


def _raise_limit(transformer: Path, max_length: int) -> None:
    """State the limit where sentence-transformers and where tokenizers look for it."""
    for name, field in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        file = transformer / name
        stated = json.loads(file.read_text("utf-8")) if file.exists() else {}
        file.unlink(missing_ok=True)  # a link may be: writing through it would change the model
        file.write_text(json.dumps(stated | {field: max_length}), "utf-8")


def _make_scorer(transformer: Path, scorer: Path, max_length: int) -> None:
    scorer.mkdir(parents=True)
    config = json.loads((transformer / "config.json").read_text("utf-8"))
    labels = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    config |= labels | {"architectures": ["BertForSequenceClassification"]}
    (scorer / "config.json").write_text(json.dumps(config), "utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        if (transformer / name).exists():
            shutil.copyfile(transformer / name, scorer / name)
    _raise_limit(scorer, max_length)
    (scorer / "sentence_bert_config.json").unlink()  # a plain transformers model, as rerankers are
    encoder = {f"bert.{name}": tensor for name, tensor in load_file(transformer / "model.safetensors").items()}
    encoder.pop("bert.embeddings.position_ids", None)
    save_file(encoder | _head(config["hidden_size"]), scorer / "model.safetensors", metadata={"format": "pt"})


def _head(width: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(_SEED)
    return {
        "bert.pooler.dense.weight": torch.randn(width, width, generator=random) / width**0.5,
        "bert.pooler.dense.bias": torch.zeros(width),
        "classifier.weight": torch.randn(1, width, generator=random) * _LOGIT_SPREAD / width**0.5,
        "classifier.bias": torch.zeros(1),
    }
