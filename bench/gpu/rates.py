"""What this device reaches at most: in a large matrix product, and in a large copy.

It knows sizes that fill a device. Both are measured on random numbers, as products of zeros run faster.
"""

import time
from collections.abc import Callable

import torch

from gpu import device as gpu_device
from gpu.floor import Rates

_ROUNDS = 6
_OF_A_ROUND = 5


@torch.inference_mode()
def measure_rates(device: torch.device) -> Rates:
    """Take the best of some rounds, about a second."""
    is_cuda = gpu_device.is_cuda(device)
    side, num_bytes = (8192, 4 * 2**30) if is_cuda else (512, 64 * 2**20)
    one, other = (torch.randn(side, side, device=device).to(torch.bfloat16) for _ in range(2))
    product_s = _best_s(lambda: torch.mm(one, other), device)
    source = torch.randint(0, 256, (num_bytes,), dtype=torch.uint8, device=device)
    destination = torch.empty_like(source)
    copy_s = _best_s(lambda: destination.copy_(source), device)
    return Rates(flop_per_s=2 * side**3 / product_s, bytes_per_s=2 * num_bytes / copy_s)


def _best_s(run: Callable[[], object], device: torch.device) -> float:
    """Seconds of one run in the best round, after one that does not count."""
    return min([_round_s(run, device) for _ in range(_ROUNDS + 1)][1:])


def _round_s(run: Callable[[], object], device: torch.device) -> float:
    gpu_device.synchronize(device)
    began = time.perf_counter()
    for _ in range(_OF_A_ROUND):
        run()
    gpu_device.synchronize(device)
    return (time.perf_counter() - began) / _OF_A_ROUND
