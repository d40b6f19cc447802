"""Which number format a model computes in on this device.

It knows that having instructions for a format does not make them fast, so it measures; and that float16 is for products
alone. It knows no model.
"""

import math
import time

import torch

from headrace_engine.config import EngineConfig
from headrace_engine.errors import Misconfigured
from headrace_engine.models.packing import Panels, Product, pack
from headrace_engine.native.calls import Kernels, kernels
from headrace_engine.native.library import Missing

# One feed-forward product of a small encoder over 128 tokens, about a millisecond. On two machines that both have
# AVX512-BF16, bf16 ran 4 times as fast as float32 (AMD Zen 5) and half as fast (an Intel Xeon without AMX).
_TOKENS, _INPUTS, _OUTPUTS = 128, 384, 1536
_ROUNDS, _TRIES = 4, 10
_FALL_ASLEEP_S = 0.05  # some 16 ms were seen


def compute_dtype(config: EngineConfig, device: torch.device) -> torch.dtype:
    """The format that `config.dtype` comes to; on a CPU "auto" is measured, in less than half a second.

    Raises:
        Misconfigured: float16 is asked for and cannot be had there, or $HEADRACE_KERNELS_LEVEL is none of this
            processor's.
    """
    match config.dtype:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case "float16":
            _check_float16(device)
            return torch.float16
        case _ if device.type == "cuda":
            return torch.bfloat16
        case _:
            return faster(*_worthwhile())


def row_dtype(dtype: torch.dtype) -> torch.dtype:
    """The format of what is not held for a product: float32 beside float16, whose range rows would soon leave."""
    return torch.float32 if dtype == torch.float16 else dtype


def multiplies_float16() -> bool:
    """Whether the kernels of this process multiply float16 as it is; elsewhere it is no faster than float32."""
    found = kernels()
    return isinstance(found, Kernels) and found.multiplies_float16


@torch.inference_mode()
def faster(*dtypes: torch.dtype) -> torch.dtype:
    """The one in which a linear layer, as it will be computed on the CPU, takes the least time."""
    products = {dtype: pack(torch.ones(_OUTPUTS, _INPUTS, dtype=row_dtype(dtype)), dtype) for dtype in dtypes}
    rows = {dtype: torch.ones(_TOKENS, _INPUTS, dtype=row_dtype(dtype)) for dtype in dtypes}
    ours = [dtype for dtype, product in products.items() if isinstance(product, Panels)]
    groups = (ours, [dtype for dtype in dtypes if dtype not in ours])
    seconds = dict.fromkeys(dtypes, math.inf)
    # Processor time of all threads, to which a busy neighbour adds little; the least, as nothing speeds a product up.
    # Torch's threads stay awake for a while after whatever it did, even to make a tensor, and would take a core from
    # ours, which then seem half as fast as they are.
    for _ in range(_ROUNDS):
        time.sleep(_FALL_ASLEEP_S)
        for group in groups:
            for _ in range(_TRIES):
                for dtype in group:
                    seconds[dtype] = min(seconds[dtype], _seconds(products[dtype], rows[dtype]))
    return min(dtypes, key=lambda dtype: seconds[dtype])


def _check_float16(device: torch.device) -> None:
    if device.type != "cpu":
        message = f"dtype='float16' is for CPUs, and the device is {device}: set 'bfloat16', or 'auto'"
        raise Misconfigured(message)
    found = kernels()
    if isinstance(found, Missing):
        message = f"dtype='float16' needs Headrace's CPU kernels ({found.reason}): set 'float32', or 'auto'"
        raise Misconfigured(message)


def _worthwhile() -> tuple[torch.dtype, ...]:
    if multiplies_float16():
        return (torch.float32, torch.float16, torch.bfloat16)
    return (torch.float32, torch.bfloat16)


def _seconds(product: Product, rows: torch.Tensor) -> float:
    start = time.process_time()
    product(rows, None)
    return time.process_time() - start
