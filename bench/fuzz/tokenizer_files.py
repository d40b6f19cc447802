"""A tokenizer.json from a stranger, as a client reads it from the fleet: it tokenises, or raises an error of ours.

It knows what such a file is made of. It does not know whether what it makes of texts is right.
"""

import json
from random import Random
from typing import Any

from headrace.errors import HeadraceError
from headrace.published import Model

from fuzz import kinds
from fuzz.mutation import mutated_json
from fuzz.target import Target, Verdict

_TEXTS = ("a ab the quick  fox", "", "\u00fcn\u00ef \n\n 12", "[UNK]")
_SMALL: dict[str, Any] = {
    "version": "1.0",
    "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    "padding": {"strategy": {"Fixed": 3}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[UNK]"},
    "added_tokens": [
        {
            "id": 0,
            "content": "[UNK]",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ],
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": True,
                "strip_accents": None,
                "lowercase": True,
            },
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "NFKC"},
        ],
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[UNK]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[UNK]": {"id": "[UNK]", "ids": [0], "tokens": ["[UNK]"]}},
    },
    "decoder": None,
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "a": 1, "##b": 2},
    },
}


def targets() -> list[Target]:
    """It."""
    return [
        Target(name="tokenizer", group="text", seeds=_seeds, run=run, mutate=_mutate, max_bytes=40_000, timeout_s=60)
    ]


def _seeds() -> list[bytes]:
    trained = (kinds.tokenizer(name).to_str().encode() for name in ("unigram", "bytes"))
    return [json.dumps(_SMALL).encode(), *trained, b"", b"{}", b"[" * 9999, b"\xff"]


def _mutate(data: bytes, rng: Random) -> bytes:
    return mutated_json(data, rng)


def run(data: bytes) -> Verdict:
    """Read a file, and tokenise by it."""
    spec = kinds.spec("unigram", max_length=16, max_chunk_tokens=64, max_chunk_items=8, prompt="")
    try:
        model = Model.of(spec, data)
        model.texts.tokenize(_TEXTS, "query: ")
        model.pairs.tokenize("q", _TEXTS)
    except HeadraceError:
        return Verdict.REFUSED
    return Verdict.TAKEN
