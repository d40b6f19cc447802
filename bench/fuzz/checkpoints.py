"""A model's directory from a stranger: it loads, or is refused with the file and field named, in bounded memory.

It knows what a small checkpoint is made of, and what hostile ones have in it. It does not read any: a process of its
own does (nursery.py), so that one that crashes or fills the memory is seen.
"""

import json
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fuzz import directory, jsonish
from fuzz.nursery import Nursery
from fuzz.target import Target, Verdict, Wrong
from fuzz.trees import changed, deep, other_leaf, other_text

_CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 12,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
_TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "BertNormalizer", "lowercase": True}]},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0}},
}
_LINKS = (
    *("/dev/zero", "/dev/full", "/proc/self/mem", "/etc/hostname", "/nowhere", "config.json", ".", "..", "self"),
    *("model.safetensors", "modules.json", "x" * 300),
)
_SIZES = (2**24, 2**24 + 1, 2**31, 2**40, 2**62, 2**63, 2**64, 10**30, -1, -(2**40), 0)
_MODULE = "sentence_transformers.models"
# Beyond what reading a file takes.
_FLAT_MIB, _TIMES = 96, 24
# Of a message: somebody is to read it.
_MOST_TEXT = 4000


def targets() -> list[Target]:
    """It."""
    return [
        Target(
            name="checkpoint",
            group="checkpoint",
            seeds=_seeds,
            run=run,
            mutate=mutate,
            max_bytes=60_000,
            timeout_s=60,
            packages=("headrace_contracts",),
            close=lambda: _nursery().close(),
        )
    ]


def bert_shapes(width: int = 8, inner: int = 8) -> dict[str, tuple[int, ...]]:
    """The tensors of `_CONFIG`'s model."""

    def dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}

    def norm(name: str) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (width,), f"{name}.bias": (width,)}

    layer = "encoder.layer.0"
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (_CONFIG["vocab_size"], width),
        "embeddings.position_embeddings.weight": (_CONFIG["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (_CONFIG["type_vocab_size"], width),
        **norm("embeddings.LayerNorm"),
    }
    for part in ("query", "key", "value"):
        found |= dense(f"{layer}.attention.self.{part}", width, width)
    found |= dense(f"{layer}.attention.output.dense", width, width) | norm(f"{layer}.attention.output.LayerNorm")
    found |= dense(f"{layer}.intermediate.dense", width, inner) | dense(f"{layer}.output.dense", inner, width)
    return found | norm(f"{layer}.output.LayerNorm")


def sound() -> dict[str, Any]:
    """One that loads, with as little as it takes."""
    return {
        "config.json": {"json": _CONFIG},
        "tokenizer.json": {"json": _TOKENIZER},
        "model.safetensors": directory.tensors(bert_shapes()),
    }


def _chained() -> dict[str, Any]:
    """With all that sentence-transformers saves."""
    kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize"))
    chain = [
        {"idx": index, "name": str(index), "path": path, "type": f"{_MODULE}.{kind}"}
        for index, (kind, path) in enumerate(kinds)
    ]
    dense = {"in_features": 8, "out_features": 4, "bias": True, "activation_function": "torch.nn.modules.Tanh"}
    return {
        **sound(),
        "modules.json": {"json": chain},
        "1_Pooling/config.json": {"json": {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}},
        "2_Dense/config.json": {"json": dense},
        "2_Dense/model.safetensors": directory.tensors({"linear.weight": (4, 8), "linear.bias": (4,)}),
        "sentence_bert_config.json": {"json": {"max_seq_length": 12, "do_lower_case": True}},
        "config_sentence_transformers.json": {"json": {"prompts": {"q": "query: "}, "default_prompt_name": "q"}},
        "tokenizer_config.json": {"json": {"model_max_length": 16, "cls_token": "[CLS]"}},
    }


def _sharded() -> dict[str, Any]:
    shapes = bert_shapes()
    names = list(shapes)
    halves = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    files = {file: directory.tensors({name: shapes[name] for name in some}) for file, some in halves.items()}
    index = {"weight_map": {name: file for file, some in halves.items() for name in some}}
    whole = sound()
    del whole["model.safetensors"]
    return {**whole, **files, "model.safetensors.index.json": {"json": index}}


def _seeds() -> list[bytes]:
    found = [sound(), _chained(), _sharded()]
    bare = sound()
    found += [{**bare, name: {"link": link}} for name in bare for link in _LINKS]
    found += [{**bare, name: entry} for name in (*bare, "modules.json") for entry in ({"fifo": True}, {"folder": True})]
    found += [{**bare, name: {"text": text}} for name in bare for text in ("", "[", "[" * 5000, '{"a":' * 5000, "\0")]
    sizes = cycle(_SIZES)
    found += [
        {**bare, "config.json": {"json": {**_CONFIG, field: size}}} for field in _CONFIG for size in islice(sizes, 3)
    ]
    return [json.dumps({"files": files}).encode() for files in found]


def mutate(data: bytes, rng: Random) -> bytes:
    """Another directory."""
    try:
        tree = jsonish.parsed(data)
        files = dict(tree["files"])
    except (ValueError, KeyError, TypeError):
        return data
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not files:
            break
        name = rng.choice(list(files))
        files[name] = _other_entry(files[name], rng)
        chance = rng.random()
        if chance < 0.03:
            del files[name]
        elif chance < 0.06:
            files[other_text(name, rng)] = files.pop(name)
        elif chance < 0.10:
            files[name] = rng.choice(({"link": rng.choice(_LINKS)}, {"fifo": True}, {"folder": True}, {"zeros": 4000}))
    try:
        return json.dumps({"files": files}).encode()
    except (ValueError, RecursionError, TypeError):
        return data


def _other_entry(entry: Any, rng: Random) -> Any:
    if not isinstance(entry, dict) or not entry:
        return entry
    for kind in ("json", "tensors"):
        if kind in entry:
            found = {**entry, kind: changed(entry[kind], rng, _other_leaf)}
            if kind == "tensors" and rng.random() < 0.15:
                found["header_size"] = rng.choice((0, 1, 2**20, 2**40, 2**63, 2**64 - 1))
            if kind == "tensors" and rng.random() < 0.15:
                found["size"] = rng.choice((0, 1, 100, 2**20))
            return found
    return changed(entry, rng)


def _other_leaf(value: Any, rng: Random) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice(_SIZES)
    return deep(rng) if rng.random() < 0.05 else other_leaf(value, rng)


def run(data: bytes) -> Verdict:
    """Have a process read and load a directory.

    Raises:
        Wrong: The process ended by itself, took too much memory or time, or raised what is not documented.
    """
    try:
        files = jsonish.parsed(data)["files"]
    except (ValueError, KeyError, TypeError):
        return Verdict.REFUSED
    if not isinstance(files, dict):
        return Verdict.REFUSED
    with TemporaryDirectory(prefix="headrace-fuzz-", ignore_cleanup_errors=True) as folder:
        size = directory.write(Path(folder), files)
        born = _nursery().load(Path(folder))
    allowed = _FLAT_MIB + _TIMES * size / 2**20
    if born.grown_mib > allowed:
        raise Wrong(f"{size} bytes of files took {born.grown_mib:.0f} MiB of memory, more than {allowed:.0f}")
    match born.kind:
        case "loaded":
            return Verdict.TAKEN
        case "refused":
            if folder not in born.text or len(born.text) > _MOST_TEXT:
                raise Wrong(f"refused in {len(born.text)} characters, or without the file's name: {born.text[:2000]}")
            return Verdict.REFUSED
    raise Wrong(f"{born.kind}: {born.text}")


@cache
def _nursery() -> Nursery:
    return Nursery()
