"""RoBERTa (Liu et al., arXiv:1907.11692), XLM-RoBERTa (arXiv:1911.02116) and CamemBERT (arXiv:1911.03894).

Their arithmetic is BERT's. It knows where their positions begin and what their tensors are called.

Transformers finds positions by counting the ids that are not pad_token_id, since its batches are padded. A ragged batch
holds no padding, so here each token counts. The two differ only for a text that itself spells the pad token ("<pad>"):
transformers gives that token the row of position pad_token_id, and the tokens after it a position less.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from headrace_engine.document import MAX_LAYERS, Document
from headrace_engine.models.bert import IGNORED, BertConfig, read_positions, refuse_variants
from headrace_engine.models.bert_layer import LayerConfig

# What transformers' configurations take where the file leaves a field out.
_DEFAULTS: Mapping[str, Any] = MappingProxyType({"pad_token_id": 1})


def read_roberta(document: Document) -> BertConfig:
    """Read the fields of config.json, whose model_type is "roberta", "xlm-roberta" or "camembert".

    Raises:
        CheckpointError: One is missing or contradicts another.
        UnsupportedModel: One asks for a variant that the encoder does not compute.
    """
    document = document.with_defaults(_DEFAULTS)
    refuse_variants(document)
    return BertConfig(
        family=document.require("model_type", str),
        prefixes=("roberta.",),
        ignored=(*IGNORED, "lm_head."),  # of pre-training, which reads the encoder's rows and changes none
        vocab_size=document.require_size("vocab_size"),
        positions=read_positions(document, 1 + document.require("pad_token_id", int)),
        num_segments=document.require_size("type_vocab_size"),
        num_layers=document.require_size("num_hidden_layers", MAX_LAYERS),
        layer=LayerConfig.read(document),
    )
