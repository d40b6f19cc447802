"""Sources of a library that answers as the real one does and compiles at once, and compilers that know too little."""

import functools
import platform
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from headrace_engine.native import library, processor
from headrace_engine.native.compiler import CannotCompile, check_flags, find_compiler

_SOURCE = """
#include "answers.h"
EXPORT int headrace_abi() {{ return {abi}; }}
"""
# GCC 11 says it like this.
_OLD_COMPILER = """#!/bin/sh
for argument; do
    case $argument in {unknown})
        echo "g++: error: unrecognized command-line option '$argument'" >&2
        exit 1
    esac
done
exec {command} "$@"
"""
_HEADER = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'


def write_sources(folder: Path, abi: int = library.ABI) -> Path:
    """Write them to a new folder."""
    folder.mkdir()
    (folder / "answers.cpp").write_text(_SOURCE.format(abi=abi))
    (folder / "answers.h").write_text(_HEADER)
    (folder / "more.cpp").write_text('#include "answers.h"\nEXPORT int tiny_more() { return 7; }\n')
    return folder


@functools.cache
def knows(level: str) -> bool:
    """Whether there is a compiler that takes the flags of a level."""
    try:
        check_flags(find_compiler(), level)
    except CannotCompile:
        return False
    return True


def write_compiler(file: Path, text: str) -> str:
    """Write a program to a new file, and give what to set CXX to."""
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


def write_old_compiler(file: Path, *unknown: str) -> str:
    """Write one that is the compiler at hand but for options that it does not know; give what to set CXX to."""
    command = shlex.join(find_compiler().command)
    return write_compiler(file, _OLD_COMPILER.format(unknown="|".join(unknown), command=command))


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
