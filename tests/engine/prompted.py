"""A small random BERT that leaves prompts out of its pooling, as sentence-transformers saves it."""

import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from .checkpoints import write, write_pooling
from .families import SIZES, VOCAB_SIZE, bert
from .oracle import scatter

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
WORDS = tuple(f"w{index}" for index in range(len(_SPECIAL), VOCAB_SIZE))
MAX_LENGTH = 32
PROMPTS = {
    "query": "w7 w8 w9 ",
    "one word": "w7 ",
    "blank": " ",
    "unknown at its end": "w7 mill",
    "special at its end": "w7 w8 </s>",
    "as long as a text may be": " ".join(WORDS[:MAX_LENGTH]) + " ",
    "empty": "",
}


def save_prompted(path: Path, pooling: str = "mean", *, has_special_tokens: bool = True) -> None:
    """Save the checkpoint.

    Args:
        path: Where.
        pooling: As sentence-transformers names it.
        has_special_tokens: Whether the tokenizer puts <s> before a text and </s> after it.
    """
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - slow, and only some tests need it

    torch.manual_seed(3)
    scatter(bert()).save_pretrained(path)
    names = dict(zip(("cls_token", "pad_token", "sep_token", "unk_token"), _SPECIAL, strict=True))
    make: Any = PreTrainedTokenizerFast  # untyped
    make(tokenizer_object=_tokenizer(has_special_tokens=has_special_tokens), **names).save_pretrained(path)
    write_pooling(path, embedding_dimension=SIZES["hidden_size"], pooling_mode=pooling, include_prompt=False)
    write(path / "sentence_bert_config.json", {"max_seq_length": MAX_LENGTH, "do_lower_case": False})
    write(path / "config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": None})


def _tokenizer(*, has_special_tokens: bool) -> Tokenizer:
    ids = {word: index for index, word in enumerate((*_SPECIAL, *WORDS))}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=_SPECIAL[3]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    if has_special_tokens:
        tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def some_texts(count: int, seed: int = 0) -> list[str]:
    """Texts of 1 to 40 words, so that some are cut."""
    mixer = random.Random(seed)  # noqa: S311 - the texts must be the same on every run
    return [" ".join(mixer.choices(WORDS, k=mixer.randint(1, 40))) for _ in range(count)]


def sentence_transformer(path: Path) -> Any:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - slow, and only some tests need it

    return SentenceTransformer(str(path), device="cpu")
