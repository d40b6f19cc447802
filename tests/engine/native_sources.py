"""Sources of a library that answers as the real one does, and compiles at once."""

import platform
import shutil
import sys
from pathlib import Path

import pytest
from headrace_engine.native import library, processor
from headrace_engine.native.compiler import CannotCompile, find_compiler

_SOURCE = """
#include "answers.h"
EXPORT int headrace_abi() {{ return {abi}; }}
"""
_HEADER = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'


def write_sources(folder: Path, abi: int = library.ABI) -> Path:
    """Write them to a new folder."""
    folder.mkdir()
    (folder / "answers.cpp").write_text(_SOURCE.format(abi=abi))
    (folder / "answers.h").write_text(_HEADER)
    (folder / "more.cpp").write_text('#include "answers.h"\nEXPORT int tiny_more() { return 7; }\n')
    return folder


def _has_compiler() -> bool:
    try:
        find_compiler()
    except CannotCompile:
        return False
    return True


def _runs_kernels() -> bool:
    return not isinstance(processor.best_level(sys.platform, platform.machine(), processor._cpuinfo()), processor.Unfit)


needs_compiler = pytest.mark.skipif(
    not (_has_compiler() and _runs_kernels()), reason="needs a C++ compiler, and a processor for the kernels"
)


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no compiler, as on most machines that run this."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert shutil.which("c++") is None
