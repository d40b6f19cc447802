"""RoBERTa (Liu et al., arXiv:1907.11692), XLM-RoBERTa (arXiv:1911.02116) and CamemBERT (arXiv:1911.03894).

Their arithmetic is BERT's. It knows where their positions begin and what their tensors are called.

Transformers finds positions by counting the ids that are not pad_token_id, since its batches are padded. A ragged batch
holds no padding, so here each token counts. The two differ only for a text that itself spells the pad token ("<pad>"):
transformers gives that token the row of position pad_token_id, and the tokens after it a position less.
"""

from headrace_engine.document import Document
from headrace_engine.models.bert import IGNORED, BertConfig, read_positions, refuse_variants
from headrace_engine.models.bert_layer import LayerConfig

_DEFAULT_PAD_TOKEN_ID = 1


def read_roberta(document: Document) -> BertConfig:
    """Read the fields of config.json, whose model_type is "roberta", "xlm-roberta" or "camembert".

    Raises:
        CheckpointError: One is missing or contradicts another.
        UnsupportedModel: One asks for a variant that the encoder does not compute.
    """
    refuse_variants(document)
    pad_token_id = document.get("pad_token_id", int)
    return BertConfig(
        family=document.require("model_type", str),
        prefixes=("roberta.",),
        ignored=(*IGNORED, "lm_head."),  # of pre-training, which reads the encoder's rows and changes none
        vocab_size=document.require("vocab_size", int),
        positions=read_positions(document, 1 + (_DEFAULT_PAD_TOKEN_ID if pad_token_id is None else pad_token_id)),
        num_segments=document.require("type_vocab_size", int),
        num_layers=document.require("num_hidden_layers", int),
        layer=LayerConfig.read(document),
    )
