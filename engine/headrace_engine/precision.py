"""Which number format a model computes in on this device.

It knows that having bf16 instructions does not make them fast, so it measures. It knows no model.
"""

import time

import torch

from headrace_engine.config import EngineConfig
from headrace_engine.models.packing import Product, pack

# One feed-forward product of a small encoder over 128 tokens, about a millisecond. On two machines that both have
# AVX512-BF16, bf16 ran 4 times as fast as float32 (AMD Zen 5) and half as fast (an Intel Xeon without AMX).
_TOKENS, _INPUTS, _OUTPUTS = 128, 384, 1536
_TRIES = 15


def compute_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """The format that `config.dtype` comes to; on a CPU "auto" takes about 30 ms to measure, with the threads set.

    Raises:
        Misconfigured: $HEADRACE_KERNELS_LEVEL is none of this processor's.
    """
    match config.dtype:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case _ if device.type == "cuda":
            return torch.bfloat16
        case _:
            return _faster(torch.float32, torch.bfloat16)


@torch.inference_mode()
def _faster(*dtypes: torch.dtype) -> torch.dtype:
    """The one in which a linear layer, as it will be computed, takes the least time."""
    return min(dtypes, key=_product_seconds)


def _product_seconds(dtype: torch.dtype) -> float:
    product = pack(torch.ones(_OUTPUTS, _INPUTS, dtype=dtype))
    rows = torch.ones(_TOKENS, _INPUTS, dtype=dtype)
    # The least of several: the first one warms up, and any other may be disturbed by a neighbour, never sped up. One
    # dtype after the other, and float32 first: torch's threads, which may compute the other, stay awake for a while
    # afterwards and would take a core from ours.
    return min(_seconds(product, rows) for _ in range(_TRIES))


def _seconds(product: Product, rows: torch.Tensor) -> float:
    start = time.perf_counter()
    product(rows, None)
    return time.perf_counter() - start
