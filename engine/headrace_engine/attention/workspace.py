"""How much memory FlashInfer's plans need.

Pure arithmetic, after the allocations of its planners (include/flashinfer/attention/scheduler.cuh, PrefillPlanImpl and
PrefillSM90Plan, version 0.7.2). It knows numbers of tokens and heads. It allocates nothing.

fa2 splits long keys over several thread blocks, each of which leaves a partial result in float32. Without a graph it
splits only until the device is full. In a graph it always does, since the launch must not depend on lengths, and it
reserves room for the worst lengths that a batch of the graph's sizes can have. fa3 never splits.
"""

from dataclasses import dataclass
from typing import Literal

from headrace_engine.attention import AttentionShape

Kernel = Literal["fa2", "fa3"]

_FLOAT = _INT = 4
_ALIGNED = 16
_NO_FLOATS = 256  # fa3 reads none, but its wrapper takes the device from a buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What the plans of one kernel need on one device.

    Attributes:
        kernel: "fa2" or "fa3".
        num_sms: The device's streaming multiprocessors.
    """

    kernel: Kernel
    num_sms: int

    def eager_float_bytes(self, shape: AttentionShape) -> int:
        """Bytes for partial results outside graphs, whatever the batch."""
        return _NO_FLOATS if self.kernel == "fa3" else self._partial_bytes(shape, self._full_device(shape))

    def graph_float_bytes(self, shape: AttentionShape, num_tokens: int, num_sequences: int) -> int:
        """Bytes for partial results in a graph of these sizes; more sequences cost more, up to a tile of rows each.

        Qwen3-0.6B on 132 multiprocessors: 75 MB for 4,096 tokens in 8 sequences, 607 MB for as many in 512. Since 0.7.2
        FlashInfer needs num_heads / num_kv_heads times less; this is enough for older versions too.
        """
        if self.kernel == "fa3":
            return _NO_FLOATS
        return self._partial_bytes(shape, self._tiles(shape, num_tokens, num_sequences, _largest_tile(shape)))

    def graph_int_bytes(self, shape: AttentionShape, num_tokens: int, num_sequences: int) -> int:
        """Bytes for the list of work of a graph of these sizes, on the device and again in page-locked memory."""
        if self.kernel == "fa2":
            tiles = self._tiles(shape, num_tokens, num_sequences, _tile(shape, num_tokens, num_sequences))
            ints = 3 * tiles + (num_sequences + 1) + (num_tokens + 1) + 2
            return _INT * ints + tiles + 8 * _ALIGNED
        # Beyond 4,096 tiles all heads share one list.
        tiles = -(-num_tokens // (192 if shape.head_dim == 64 else 128)) + num_sequences - 1
        works = tiles if tiles > 4096 else tiles * shape.num_heads
        return _INT * (7 * works + self.num_sms + 1) + 8 * _ALIGNED

    def _full_device(self, shape: AttentionShape) -> int:
        return 2 * self.num_sms // shape.num_kv_heads

    def _tiles(self, shape: AttentionShape, num_tokens: int, num_sequences: int, tile: int) -> int:
        """The thread blocks of a graph, for each head of keys."""
        rows = num_tokens * _group(shape)
        return max(self._full_device(shape), -(-rows // tile) + num_sequences - 1)

    def _partial_bytes(self, shape: AttentionShape, tiles: int) -> int:
        rows = shape.num_heads * tiles * _largest_tile(shape)
        return rows * (shape.head_dim + 1) * _FLOAT + 2 * _ALIGNED


def _tile(shape: AttentionShape, num_tokens: int, num_sequences: int) -> int:
    """The rows of one thread block in a graph, by the longest sequence that it may have to run."""
    rows = (num_tokens - num_sequences + 1) * _group(shape)
    return _largest_tile(shape) if rows > 64 else 64 if rows > 16 else 16


def _largest_tile(shape: AttentionShape) -> int:
    return 64 if shape.head_dim >= 256 else 128


def _group(shape: AttentionShape) -> int:
    """The heads of queries that share one of keys: their rows are put in one tile."""
    return shape.num_heads // shape.num_kv_heads
