"""Which number format a model computes in on this device.

It knows that having bf16 instructions does not make them fast, so it measures. It knows no model.
"""

import time

import torch
import torch.nn.functional as F  # noqa: N812 - the name torch's own documentation uses

from headrace_engine.config import EngineConfig

# One feed-forward product of a small encoder over 128 tokens, about a millisecond. On two machines that both have
# AVX512-BF16, bf16 ran 4 times as fast as float32 (AMD Zen 5) and half as fast (an Intel Xeon without AMX).
_TOKENS, _INPUTS, _OUTPUTS = 128, 384, 1536
_TRIES = 7


def compute_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """The format that `config.dtype` comes to; on a CPU "auto" takes about 20 ms to measure, with the threads set."""
    match config.dtype:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case _ if device.type == "cuda":
            return torch.bfloat16
        case _:
            return min(torch.float32, torch.bfloat16, key=_product_seconds)


@torch.inference_mode()
def _product_seconds(dtype: torch.dtype) -> float:
    rows = torch.ones(_TOKENS, _INPUTS, dtype=dtype)
    weight = torch.ones(_OUTPUTS, _INPUTS, dtype=dtype)
    # The least of several: the first one warms up, and any other may be disturbed by a neighbour, never sped up.
    return min(_seconds(rows, weight) for _ in range(_TRIES))


def _seconds(rows: torch.Tensor, weight: torch.Tensor) -> float:
    start = time.perf_counter()
    F.linear(rows, weight)
    return time.perf_counter() - start
