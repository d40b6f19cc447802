"""Small random encoders of transformers whose tokens turn by their position."""

from typing import Any

import torch

# transformers is imported where a model is built: it is slow, and only some tests need it.

VOCAB = 150
WINDOW = 6
HEAD_DIM = 12
GEMMA3: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 24,
    "query_pre_attn_scalar": 20,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "sliding_window": 2 * WINDOW,
    "sliding_window_pattern": 3,
    "use_bidirectional_attention": True,
    "initializer_range": 0.2,
    "pad_token_id": 1,
}


def modernbert(**fields: Any) -> Any:
    """A random ModernBERT of four layers, the first and last of which see the whole sequence."""
    from transformers import ModernBertConfig, ModernBertModel  # noqa: PLC0415

    torch.manual_seed(3)
    config = {
        "vocab_size": VOCAB,
        "hidden_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "local_attention": 2 * WINDOW,
        "initializer_range": 0.2,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1),
    }
    return ModernBertModel(ModernBertConfig(**{**config, **fields}))


def nomic_bert(**fields: Any) -> Any:
    """A random Nomic BERT of three layers."""
    from transformers import NomicBertConfig, NomicBertModel  # noqa: PLC0415

    torch.manual_seed(3)
    config = {
        "vocab_size": VOCAB,
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
        "pad_token_id": 1,
    }
    return NomicBertModel(NomicBertConfig(**{**config, **fields}))


def gemma3(**fields: Any) -> Any:
    """A random Gemma 3 of four layers, the third of which sees the whole sequence."""
    from transformers import Gemma3TextConfig, Gemma3TextModel  # noqa: PLC0415

    torch.manual_seed(3)
    return Gemma3TextModel(Gemma3TextConfig(**{**GEMMA3, **fields}))


def gte(**fields: Any) -> Any:
    """A random GTE of three layers."""
    from transformers import GteConfig, GteModel  # noqa: PLC0415

    torch.manual_seed(3)
    config = {
        "vocab_size": VOCAB,
        "hidden_size": 4 * HEAD_DIM,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
    }
    return GteModel(GteConfig(**{**config, **fields}))
