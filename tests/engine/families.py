"""One small random encoder of each family, as transformers makes it.

`test_families.py` holds every one of them to the same contract: write a function that returns an encoder, and add it to
`FAMILIES`. It has 150 token ids, of which id 1 is the pad token where the family has one, and it takes sequences of up
to 64 tokens or a few less.
"""

from collections.abc import Callable
from typing import Any

import torch

from .qwen3_models import pplx, qwen3
from .rotary_models import gemma3, gte, modernbert, nomic_bert

VOCAB_SIZE = 150
PAD_TOKEN_ID = 1
# Weights spread wide and an epsilon that is felt, so that every layer matters.
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
    "layer_norm_eps": 0.1,
    "pad_token_id": PAD_TOKEN_ID,
}


def bert(**fields: Any) -> Any:
    from transformers import BertConfig, BertModel  # noqa: PLC0415 - slow, and only tests that build one need it

    return BertModel(BertConfig(**{**SIZES, **fields}))


def roberta(**fields: Any) -> Any:
    from transformers import RobertaConfig, RobertaModel  # noqa: PLC0415

    return RobertaModel(RobertaConfig(**{**SIZES, "hidden_act": "gelu_new", **fields}))


def xlm_roberta(**fields: Any) -> Any:
    from transformers import XLMRobertaConfig, XLMRobertaModel  # noqa: PLC0415

    return XLMRobertaModel(XLMRobertaConfig(**{**SIZES, "type_vocab_size": 1, **fields}))


def camembert(**fields: Any) -> Any:
    from transformers import CamembertConfig, CamembertModel  # noqa: PLC0415

    return CamembertModel(CamembertConfig(**{**SIZES, "type_vocab_size": 1, **fields}))


def distilbert(**fields: Any) -> Any:
    from transformers import DistilBertConfig, DistilBertModel  # noqa: PLC0415

    own_names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    sizes = {own_names.get(field, field): value for field, value in SIZES.items() if field != "intermediate_size"}
    return DistilBertModel(DistilBertConfig(**{**sizes, "hidden_dim": SIZES["intermediate_size"], **fields}))


def mpnet(**fields: Any) -> Any:
    from transformers import MPNetConfig, MPNetModel  # noqa: PLC0415

    model = MPNetModel(MPNetConfig(**{**SIZES, "max_position_embeddings": 202, **fields}))
    # Large beside the scores, so that a distance in the wrong bucket is seen.
    torch.nn.init.normal_(model.encoder.relative_attention_bias.weight, std=2.0)
    return model


FAMILIES: tuple[Callable[[], Any], ...] = (
    *(bert, roberta, xlm_roberta, camembert, distilbert, mpnet),
    *(modernbert, nomic_bert, gemma3, gte, qwen3, pplx),
)
