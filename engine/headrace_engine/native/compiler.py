"""How the C++ kernels are compiled: the compiler, its command, and the name of what it makes.

It knows flags and files. It does not know what the kernels compute, which processor this is, or where libraries are
kept. The build hook of the wheel loads this file by its path, so it imports nothing but the standard library.
"""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

# Best first: a processor that runs one level runs those after it. GCC 11 and Clang 12 know all of these flags but
# -mavx512fp16, which came with GCC 12 and Clang 14.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "avx512fp16": ("-march=x86-64-v4", "-mavx512bf16", "-mavx512fp16", "-mprefer-vector-width=512"),
    "avx512bf16": ("-march=x86-64-v4", "-mavx512bf16", "-mprefer-vector-width=512"),
    "avx512": ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    "avx2": ("-march=x86-64-v3",),
}
TIMEOUT_S = 120.0
CHECK_TIMEOUT_S = 20.0

_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-pthread",
    "-shared",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Werror=return-type",
)
_USUAL = ("c++", "g++", "clang++")
_MAX_LINES = 10  # of what a compiler printed last


class CannotCompile(Exception):
    """There is nothing to compile or to compile with, or it failed; the message says what."""


class UnknownFlags(CannotCompile):
    """A compiler does not take the flags of a level, mostly as it is too old; it may take those of a lower one."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        command: The program, and the arguments that stand before all others.
    """

    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)


def find_compiler(environment: Mapping[str, str] = os.environ) -> Compiler:
    """Find a C++ compiler: $CXX, which may have arguments, or else c++, g++ or clang++ on the PATH.

    Raises:
        CannotCompile: There is none.
    """
    path = environment.get("PATH", os.defpath)
    asked = environment.get("CXX", "").strip()
    if not asked:
        for name in _USUAL:
            if shutil.which(name, path=path) is not None:
                return Compiler((name,))
        message = f"there is no C++ compiler: install one of {', '.join(_USUAL)}, or set CXX"
        raise CannotCompile(message)
    try:
        command = tuple(shlex.split(asked))
    except ValueError as error:
        message = f"CXX={asked!r} cannot be split into words ({error}): set it to a C++ compiler, or unset it"
        raise CannotCompile(message) from error
    if shutil.which(command[0], path=path) is None:
        message = f"CXX={asked!r} names no program that is here: set it to a C++ compiler, or unset it"
        raise CannotCompile(message)
    return Compiler(command)


def levels_from(level: str) -> tuple[str, ...]:
    """A level, which is a key of `LEVELS`, and those below it, best first."""
    levels = tuple(LEVELS)
    return levels[levels.index(level) :]


def flags(level: str) -> tuple[str, ...]:
    """All flags for a level, which is a key of `LEVELS`."""
    return (*_FLAGS, *LEVELS[level])


def source_files(sources: Path) -> tuple[Path, ...]:
    """The sources and headers in a directory, in the order of their names.

    Raises:
        CannotCompile: It holds none.
    """
    files = sorted((*sources.glob("*.cpp"), *sources.glob("*.h")), key=lambda file: file.name)
    if not any(file.suffix == ".cpp" for file in files):
        message = f"{sources} holds no C++ sources: install Headrace anew"
        raise CannotCompile(message)
    return tuple(files)


def digest(level: str, contents: Sequence[tuple[str, bytes]]) -> str:
    """Hash what decides a library: the flags of its level, and the name and bytes of each source, in order.

    Returns:
        16 hexadecimal digits.
    """
    hashed = hashlib.sha256()
    named = chain.from_iterable((name.encode(), content) for name, content in contents)
    for part in chain((flag.encode() for flag in flags(level)), named):
        # With its length before it, nothing moves from one part to the next unnoticed.
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()[:16]


def library_name(sources: Path, level: str) -> str:
    """What the library of these sources is called; one compiled from others has another name, so none is ever stale.

    Raises:
        CannotCompile: There are no sources.
    """
    contents = [(file.name, file.read_bytes()) for file in source_files(sources)]
    return f"headrace-{digest(level, contents)}-{level}.so"


def command_line(compiler: Compiler, files: Sequence[Path], level: str, made: Path) -> tuple[str, ...]:
    """The command that compiles all sources among `files` into one library."""
    units = (str(file) for file in files if file.suffix == ".cpp")
    return (*compiler.command, *flags(level), *units, "-o", str(made))


def check_flags(compiler: Compiler, level: str, timeout_s: float = CHECK_TIMEOUT_S) -> None:
    """See that a compiler takes the flags of a level, by giving it nothing to compile, which takes no time.

    Raises:
        UnknownFlags: It does not.
        CannotCompile: It cannot be started, or took too long.
    """
    command = (*compiler.command, *flags(level), "-fsyntax-only", "-x", "c++", os.devnull)
    if failure := _run(command, timeout_s):
        message = f"{compiler} does not know {level}: {failure}"
        raise UnknownFlags(message)


def compile(  # noqa: A001 - read as compiler.compile, and the built-in one is for Python
    sources: Path, level: str, target: Path, compiler: Compiler, timeout_s: float = TIMEOUT_S
) -> None:
    """Compile a library. Whoever looks at `target` meanwhile finds the file before or the new one, never half of one.

    Args:
        sources: The directory of the sources.
        level: A key of `LEVELS`.
        target: The library, in a directory that is there.
        compiler: What to compile with.
        timeout_s: How long it may take; then it is ended, with all that it started.

    Raises:
        CannotCompile: There are no sources, or the compiler failed or took too long.
        OSError: The directory of `target` cannot be written to.
    """
    files = source_files(sources)
    with tempfile.TemporaryDirectory(prefix=".headrace-", dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = command_line(compiler, files, level, made)
        if failure := _run(command, timeout_s):
            raise CannotCompile(failure)
        if not made.is_file():
            message = f"{shlex.join(command)} made no library"
            raise CannotCompile(message)
        with made.open("rb") as file:
            # The new name must not reach the disk before the content does.
            os.fsync(file.fileno())
        made.replace(target)


def _run(command: Sequence[str], timeout_s: float) -> str:
    """Run to the end.

    Returns:
        How it failed and what it said last; empty if it did not fail.

    Raises:
        CannotCompile: It cannot be started, or took too long.
    """
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, process_group=0
            )
        except OSError as error:
            message = f"{shlex.join(command)} cannot be started: {error.strerror}"
            raise CannotCompile(message) from error
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            message = f"{shlex.join(command)} took more than {timeout_s:g} s"
            raise CannotCompile(message) from None
        finally:
            # A compiler is several processes, and an interrupt does not reach a group of its own.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if not code:
            return ""
        printed.seek(0)
        said = printed.read().decode("utf-8", "replace").strip().splitlines()[-_MAX_LINES:]
        return "\n".join((f"{shlex.join(command)} ended with status {code}", *said))
