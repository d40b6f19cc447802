"""The compiled kernels of every level that can be had here, for tests that compare them."""

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from headrace_engine.native import library, processor
from headrace_engine.native.calls import Kernels
from headrace_engine.native.compiler import levels_from
from headrace_engine.native.library import Library

from .native_sources import knows


def levels_here() -> tuple[str, ...]:
    """The levels that this processor runs and the compiler knows, best first."""
    best = processor.best_level(sys.platform, platform.machine(), processor._cpuinfo())
    return () if isinstance(best, processor.Unfit) else tuple(filter(knows, levels_from(best)))


def load_kernels(level: str) -> Kernels:
    """The kernels of a level, compiled once for all processes of tests, where conftest.py says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(processor.VARIABLE, level)
        found = library.find()
    assert isinstance(found, Library), found
    assert found.level == level
    return Kernels(found)


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """How far they are apart, as part of what is expected; infinite where there is what is no number."""
    apart: float = ((found - expected).double().norm() / expected.double().norm()).nan_to_num(torch.inf).item()
    return apart
