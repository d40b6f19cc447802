"""Small random Qwen3s of transformers, causal and as pplx-embed changes them."""

from typing import Any

import torch

CONFIG: dict[str, Any] = {
    "vocab_size": 150,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 20,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "pad_token_id": 1,
}


def qwen3(**fields: Any) -> Any:
    """One whose heads together are wider than a row."""
    from transformers import Qwen3Config, Qwen3Model  # noqa: PLC0415 - slow, and only tests that build one need it

    torch.manual_seed(3)
    return Qwen3Model(Qwen3Config(**{**CONFIG, **fields}))


def pplx(**fields: Any) -> Any:
    """The same, and every token sees all others."""
    from transformers import Qwen3Config  # noqa: PLC0415

    model = qwen3(**fields)
    # Their own code has a class for it; the name is all that differs.
    config = type("PplxConfig", (Qwen3Config,), {"model_type": "bidirectional_pplx_qwen3"})
    # The config tells the mask, and each layer the kernel, which goes without a mask where nothing is padded.
    model.config = config(**{**CONFIG, **fields, "is_causal": False, "use_bidirectional_attention": True})
    model.config._attn_implementation = "sdpa"
    for layer in model.layers:
        layer.self_attn.is_causal = False
    return model
