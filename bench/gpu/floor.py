"""What no step can beat: its operations at the rate of a large matrix product, its bytes at the rate of a copy.

Pure arithmetic. It knows the matrices of a model and which tokens see which. It leaves out all that is small: norms,
rotations, biases, heads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_BYTES = 2  # of a bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a device reaches at most.

    Attributes:
        flop_per_s: In a large bfloat16 matrix product.
        bytes_per_s: In a large copy, read and written counted both.
    """

    flop_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """What must be done.

    Attributes:
        flop: Operations, a multiplication and an addition being two.
        num_bytes: Read from the device's memory.
    """

    flop: float
    num_bytes: float

    def floor_ms(self, rates: Rates) -> float:
        """The longer of the two, which at best hides the other."""
        return 1000 * max(self.flop / rates.flop_per_s, self.num_bytes / rates.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrices:
    """The sizes that cost something.

    Attributes:
        num_layers: How many layers.
        width: Of a token's row.
        num_heads: Of queries.
        num_kv_heads: Of keys and values.
        head_dim: The width of a head.
        inner: The width inside the feed-forward part.
        is_gated: Whether that has a third matrix.
        is_causal: Whether a token sees only itself and those before it.
    """

    num_layers: int
    width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    inner: int
    is_gated: bool
    is_causal: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Matrices":
        """Those of a config.json."""
        width, num_heads = config["hidden_size"], config["num_attention_heads"]
        is_qwen3 = config["model_type"].endswith("qwen3")
        return cls(
            num_layers=config["num_hidden_layers"],
            width=width,
            num_heads=num_heads,
            num_kv_heads=config["num_key_value_heads"] if is_qwen3 else num_heads,
            head_dim=config["head_dim"] if is_qwen3 else width // num_heads,
            inner=config["intermediate_size"],
            is_gated=is_qwen3,
            is_causal=config["model_type"] == "qwen3",
        )

    @property
    def num_weights(self) -> int:
        """Numbers in all matrices, without embeddings."""
        heads = 2 * self.num_heads + 2 * self.num_kv_heads  # queries and the way back, keys and values
        return self.num_layers * self.width * (heads * self.head_dim + (3 if self.is_gated else 2) * self.inner)

    def work(self, lengths: Iterable[int]) -> Work:
        """What one batch takes: every weight is read once, and for each token its row of the embedding.

        Args:
            lengths: Tokens of each sequence.
        """
        lengths = tuple(lengths)
        num_tokens, pairs = sum(lengths), sum(map(self._pairs, lengths))
        attention = 4 * self.num_layers * self.num_heads * self.head_dim * pairs  # scores, then their values
        dense = 2 * self.num_weights * num_tokens
        return Work(dense + attention, _BYTES * (self.num_weights + num_tokens * self.width))

    def _pairs(self, length: int) -> int:
        """How often one token sees another."""
        return length * (length + 1) // 2 if self.is_causal else length * length
