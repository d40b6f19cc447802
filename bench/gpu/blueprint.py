"""The models that are built: shapes of three that matter, without their weights.

It knows fields of config.json, as the checkpoints named have them, and what is cut off of them where time is short. It
draws no tensor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace_engine.pooling import Pooling


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What a model is built by.

    Attributes:
        name: As tables show it.
        config: The fields of its config.json.
        pooling: Of an embedding model; None is a scorer, with its family's classification head.
        max_length: The most tokens of a sequence.
        timed: Batches to time, the tokens of each sequence.
        include_prompt: Whether all tokens are pooled; where not, each sequence has some that are left out.
    """

    name: str
    config: Mapping[str, Any]
    pooling: Pooling | None
    max_length: int
    timed: tuple[tuple[int, ...], ...]
    include_prompt: bool = True

    def thin(self, num_layers: int) -> "Blueprint":
        """The same with few layers and a small vocabulary: attention is what it was, and it is built at once."""
        return replace(self, config={**self.config, "num_hidden_layers": num_layers, "vocab_size": _SMALL_VOCABULARY})

    def small(self) -> "Blueprint":
        """All of it scaled down, for a CPU."""
        short = dict.fromkeys(tuple(min(length, _SMALL_TIMED) for length in lengths) for lengths in self.timed)
        return replace(
            self,
            config={**self.config, **_SMALL},
            max_length=min(self.max_length, _SMALL_LENGTH),
            timed=tuple(short),
        )


_SMALL_VOCABULARY = 1000
_SMALL_LENGTH = 256
_SMALL_TIMED = 32
_SMALL: Mapping[str, Any] = {
    "vocab_size": _SMALL_VOCABULARY,
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}

MINILM = Blueprint(
    name="MiniLM",
    config={
        "model_type": "bert",
        "vocab_size": 30_522,
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_attention_heads": 12,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    },
    pooling="mean",
    max_length=512,
    timed=((128,), (512,), (512,) * 8),
    include_prompt=False,
)
XLM_R_LARGE = Blueprint(
    name="XLM-R-large",
    config={
        "model_type": "xlm-roberta",
        "vocab_size": 250_002,
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "pad_token_id": 1,
        "layer_norm_eps": 1e-5,
        "hidden_act": "gelu",
    },
    pooling=None,
    max_length=512,
    timed=((512,) * 5, (512,) * 25, (512,) * 50),
)
QWEN3 = Blueprint(
    name="Qwen3-0.6B",
    config={
        "model_type": "qwen3",
        "vocab_size": 151_936,
        "num_hidden_layers": 28,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 32_768,
        "rope_theta": 1_000_000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
    },
    pooling="last_token",
    max_length=8192,
    timed=((128,), (512,), (1024,), (2048,), (4096,), (512,) * 100),
)
# pplx-embed's: grouped keys without a causal mask, which no other one here has.
QWEN3_BOTH_SIDES = replace(
    QWEN3, name="Qwen3 both sides", config={**QWEN3.config, "model_type": "bidirectional_pplx_qwen3"}, pooling="mean"
)

MODELS = (MINILM, XLM_R_LARGE, QWEN3)
