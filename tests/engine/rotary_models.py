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
# What nomic-ai/nomic-embed-text-v1.5 says, but for the sizes.
NOMIC_NAMES: dict[str, Any] = {
    "model_type": "nomic_bert",
    "architectures": ["NomicBertModel"],
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "causal": False,
    "dense_seq_output": True,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": 48,
    "n_head": 4,
    "n_inner": 64,
    "n_layer": 3,
    "n_positions": 64,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "type_vocab_size": 2,
    "use_rms_norm": False,
    "vocab_size": VOCAB,
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
