"""Which level of the kernels this processor runs.

It knows the names of processor flags in Linux' /proc/cpuinfo. It does not know whether kernels of that level are here.
"""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace_engine.errors import Misconfigured
from headrace_engine.native.compiler import LEVELS

VARIABLE = "HEADRACE_KERNELS_LEVEL"
NONE = "none"

# What a compiler may use at a level, as the psABI for x86-64 has it; lzcnt is called abm. Linux leaves out what has
# registers that it does not save.
_AVX2 = ("avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "avx512fp16": (*_AVX512, "avx512_bf16", "avx512_fp16"),
    "avx512bf16": (*_AVX512, "avx512_bf16"),
    "avx512": _AVX512,
    "avx2": _AVX2,
}
_SPOKEN = {"abm": "LZCNT"}


@dataclass(frozen=True, slots=True)
class Unfit:
    """No kernels are to run here.

    Attributes:
        reason: Why, as part of a sentence.
    """

    reason: str


def level() -> str | Unfit:
    """The level for this processor, or the lower one that $HEADRACE_KERNELS_LEVEL asks for.

    Raises:
        Misconfigured: $HEADRACE_KERNELS_LEVEL is no level, or above what this processor runs.
    """
    return chosen(os.environ.get(VARIABLE, ""), best_level(sys.platform, platform.machine(), _cpuinfo()))


def best_level(system: str, machine: str, cpuinfo: str) -> str | Unfit:
    """The best level that all processors of a machine run, which are not alike on every one.

    Args:
        system: As `sys.platform` names it.
        machine: As `platform.machine` names it.
        cpuinfo: The text of /proc/cpuinfo.

    Returns:
        A key of `compiler.LEVELS`, or why there is none.
    """
    if (system, machine) != ("linux", "x86_64"):
        return Unfit(f"the kernels are for x86-64 Linux, and this is {system} {machine}")
    processors = [set(_value(line).split()) for line in cpuinfo.splitlines() if _key(line) == "flags"]
    if not processors:
        return Unfit("/proc/cpuinfo lists no flags of a processor")
    common = set.intersection(*processors)
    for each in LEVELS:
        if common.issuperset(_NEEDS[each]):
            return each
    lacking = next(flag for flag in _AVX2 if flag not in common)
    return Unfit(f"the processor has no {_SPOKEN.get(lacking, lacking.upper())}")


def chosen(asked: str, best: str | Unfit) -> str | Unfit:
    """The level that was asked for, which may be lower than the best one; the best one if `asked` is empty.

    Raises:
        Misconfigured: It is no level, or above the best one.
    """
    if asked == NONE:
        return Unfit(f"{VARIABLE}={NONE} asks for torch's own")
    if not asked:
        return best
    if asked not in LEVELS:
        message = f"{VARIABLE}={asked} is no level: set it to {', '.join(LEVELS)} or {NONE}, or unset it"
        raise Misconfigured(message)
    if isinstance(best, Unfit):
        message = f"{VARIABLE}={asked} cannot be had ({best.reason}): set it to {NONE}, or unset it"
        raise Misconfigured(message)
    order = list(LEVELS)
    if order.index(asked) < order.index(best):
        message = f"{VARIABLE}={asked} is above {best}, the best that this processor runs: lower it, or unset it"
        raise Misconfigured(message)
    return asked


def _key(line: str) -> str:
    return line.partition(":")[0].strip()


def _value(line: str) -> str:
    return line.partition(":")[2]


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
