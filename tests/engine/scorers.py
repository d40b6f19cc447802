"""One small random cross-encoder of each family, with a tokenizer, as transformers saves it.

`test_scoring.py` compares every one with sentence-transformers: to have another compared, add a function to `SCORERS`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from .families import PAD_TOKEN_ID, SIZES, VOCAB_SIZE
from .oracle import scatter

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
WORDS = tuple(f"w{index}" for index in range(len(_SPECIAL), VOCAB_SIZE))
_IDS = {word: index for index, word in enumerate((*_SPECIAL, *WORDS))}


def bert() -> Any:
    return _make("Bert")


def roberta() -> Any:
    return _make("Roberta", type_vocab_size=1)


def xlm_roberta() -> Any:
    return _make("XLMRoberta", type_vocab_size=1)


def camembert() -> Any:
    return _make("Camembert", type_vocab_size=1)


def distilbert() -> Any:
    return _make("DistilBert", n_heads=4, n_layers=3, dim=48, hidden_dim=64)


def mpnet() -> Any:
    return _make("MPNet")


def modernbert_cls() -> Any:
    return _modernbert(classifier_pooling="cls")


def modernbert_mean() -> Any:
    return _modernbert(classifier_pooling="mean", classifier_bias=True, norm_bias=True, classifier_activation="relu")


def gte() -> Any:
    return _make("Gte", type_vocab_size=1)


def qwen3() -> Any:
    return _make("Qwen3", num_key_value_heads=2, head_dim=16)


SCORERS: tuple[Callable[[], Any], ...] = (
    bert,
    roberta,
    xlm_roberta,
    camembert,
    distilbert,
    mpnet,
    modernbert_cls,
    modernbert_mean,
    gte,
    qwen3,
)


def _modernbert(**fields: Any) -> Any:
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 2)
    return _make("ModernBert", local_attention=12, norm_eps=0.1, **special, **fields)


def _make(name: str, **fields: Any) -> Any:
    import transformers  # noqa: PLC0415 - slow, and only tests that build one need it

    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, "num_labels": 1, **fields})
    return scatter(getattr(transformers, f"{name}ForSequenceClassification")(config))


def save_scorer(model: Any, path: Path) -> None:
    """Save a cross-encoder with a tokenizer, as transformers alone does."""
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    model.save_pretrained(path)
    has_segments = getattr(model.config, "type_vocab_size", 1) > 1
    names = ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"]
    make: Any = PreTrainedTokenizerFast  # untyped
    make(
        tokenizer_object=_tokenizer(has_segments=has_segments),
        pad_token=_SPECIAL[PAD_TOKEN_ID],
        unk_token=_SPECIAL[3],
        model_max_length=SIZES["max_position_embeddings"] - 2,
        model_input_names=names,
    ).save_pretrained(path)


def _tokenizer(*, has_segments: bool) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(_IDS, unk_token=_SPECIAL[3]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1" if has_segments else "<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer
