"""DistilBERT (Sanh et al., arXiv:1910.01108).

Its arithmetic is that of a BERT without segments. It knows its own names of fields and tensors.
"""

from headrace_engine.document import MAX_LAYERS, Document
from headrace_engine.models.activations import read_activation
from headrace_engine.models.bert import IGNORED, BertConfig, read_positions
from headrace_engine.models.bert_layer import LayerConfig, LayerNames
from headrace_engine.models.head_sizes import divide

_LAYER = LayerNames(
    qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    attended="attention.out_lin",
    attended_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    norm="output_layer_norm",
)
# A head that reads the encoder's rows and changes none.
_PRE_TRAINING = ("vocab_transform.", "vocab_layer_norm.", "vocab_projector.")
# The model's own code has it as a constant.
_EPS = 1e-12


def read_distilbert(document: Document) -> BertConfig:
    """Read the fields of config.json.

    sinusoidal_pos_embds needs no heed: it says how the table of positions was made, and the table is in the checkpoint.

    Raises:
        CheckpointError: One is missing or contradicts another.
        UnsupportedModel: The activation is unknown.
    """
    divide(document, "dim", "n_heads")
    return BertConfig(
        family="distilbert",
        prefixes=("distilbert.",),
        ignored=(*IGNORED, *_PRE_TRAINING),
        vocab_size=document.require_size("vocab_size"),
        positions=read_positions(document, 0),
        has_segments=False,
        num_layers=document.require_size("n_layers", MAX_LAYERS),
        layer=LayerConfig(
            hidden_size=document.require_size("dim"),
            num_heads=document.require_size("n_heads"),
            intermediate_size=document.require_size("hidden_dim"),
            eps=_EPS,
            activation=read_activation(document, "activation"),
        ),
        layers="transformer.layer",
        names=_LAYER,
    )
