"""The compiled kernels for this processor: found or compiled, and loaded.

It knows where a library may be, which of them to trust, and how to see that one is whole. It does not know what is
computed in it.
"""

import _ctypes
import ctypes
import functools
import logging
import os
import stat
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace_engine.native import compiler, processor
from headrace_engine.native.compiler import CannotCompile, Compiler, UnknownFlags
from headrace_engine.native.processor import Unfit

logger = logging.getLogger(__name__)

ABI = 6  # of the functions that calls.py declares, and sources/library.cpp answers for
SOURCES = Path(__file__).with_name("sources")
SHIPPED = Path(__file__).with_name("built")
VARIABLE = "HEADRACE_KERNELS"

# The header of a 64-bit ELF file, up to the size, number and name of its sections (System V ABI, chapter 4).
_HEADER = struct.Struct("<16s2HI3QI6H")


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library.

    Attributes:
        level: What it is compiled for, a key of `compiler.LEVELS`.
        path: Where it was loaded from; one that only this process has is there no longer.
        origin: How it came to be there, and why it is of no better level where one was wanted, for people.
        cdll: The library.
    """

    level: str
    path: Path
    origin: str
    cdll: ctypes.CDLL


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no library, so torch's own kernels run.

    Attributes:
        reason: Why, as part of a sentence.
    """

    reason: str


class NotLoadable(Exception):
    """A file is no whole library, or not one of ours; the message says what is wrong with it."""


class Untrusted(Exception):
    """A folder is not the user's own alone, or there is none; the message says what to do."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    sources: Path
    level: str
    name: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class _Lack:
    """Why there is no library of a level.

    Attributes:
        reason: For who gets none at all, as part of a sentence.
        brief: The same in a few words, for who gets one of a lower level.
        is_fault: A compiler is here and did not serve, which is to be warned of where no lower level does.
        is_final: It was not for the level, so no lower one is worth compiling.
    """

    reason: str
    brief: str
    is_fault: bool
    is_final: bool


@functools.cache
def library() -> Library | Missing:
    """The library for this process, looked for once; raises what `find` does."""
    return find()


def find(sources: Path = SOURCES, shipped: Path = SHIPPED, timeout_s: float = compiler.TIMEOUT_S) -> Library | Missing:
    """Find the library for this processor: shipped with the package, in the cache, or compiled now into the cache.

    Where there is no compiler for its level, and none of that level is here, it is one of the next lower level. After a
    compilation that failed none is compiled, but a lower one that is here is taken. The cache is $HEADRACE_KERNELS, or
    headrace/kernels in the user's own.

    Args:
        sources: The directory of the C++ sources.
        shipped: The directory of libraries that came with the package.
        timeout_s: How long a compiler may take.

    Raises:
        Misconfigured: $HEADRACE_KERNELS_LEVEL is no level, or above what this processor runs.
    """
    level = processor.level()
    if isinstance(level, Unfit):
        return Missing(level.reason)
    try:
        levels = compiler.levels_from(level)
        wanted = [_Wanted(sources, each, compiler.library_name(sources, each), timeout_s) for each in levels]
    except (CannotCompile, OSError) as error:
        return Missing(str(error))
    lacks: list[_Lack] = []
    for each in wanted:
        found = _shipped(each, shipped) or _kept_or_compiled(each, lacks)
        if isinstance(found, Library):
            return _lowered(found, lacks)
        lacks.append(found)
    return _missing(lacks)


def cache_folder() -> Path:
    """Where libraries are kept: made if need be, and seen to be the user's own, as code is loaded from it.

    Raises:
        Untrusted: There is none, it cannot be made, or someone else may write to it.
    """
    folder = _cache_path()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What is looked at is what is loaded from, whoever owns a link on the way.
        folder = folder.resolve(strict=True)
        status = folder.stat()
    except OSError as error:
        message = f"{folder} cannot be made ({error.strerror}): set {VARIABLE} to a folder of your own"
        raise Untrusted(message) from error
    if status.st_uid != os.geteuid():
        message = f"{folder} belongs to another user: set {VARIABLE} to a folder of your own"
        raise Untrusted(message)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        message = f"others may write to {folder}: chmod go-w it, or set {VARIABLE} to a folder of your own"
        raise Untrusted(message)
    return folder


def load(path: Path) -> ctypes.CDLL:
    """Load a library.

    Raises:
        NotLoadable: It is not whole, for another system or of another ABI.
    """
    try:
        if not _is_whole(path):
            message = f"{path} is not a whole library"
            raise NotLoadable(message)
        cdll = ctypes.CDLL(str(path))
    except OSError as error:
        raise NotLoadable(str(error)) from error
    try:
        abi = cdll.headrace_abi()
    except AttributeError:
        abi = "no"
    if abi != ABI:
        # While it is loaded, its path stands for it, whatever file is there.
        _ctypes.dlclose(cdll._handle)  # noqa: SLF001 - ctypes has no other way to let go of a library
        message = f"{path} has {abi} ABI, and {ABI} is wanted"
        raise NotLoadable(message)
    return cdll


def _shipped(wanted: _Wanted, shipped: Path) -> Library | None:
    path = shipped / wanted.name
    if not path.is_file():
        return None
    try:
        return Library(wanted.level, path, "shipped with the package", load(path))
    except NotLoadable as error:
        logger.warning("the CPU kernels shipped with the package cannot be loaded: %s", error)
        return None


def _kept_or_compiled(wanted: _Wanted, lacks: Sequence[_Lack]) -> Library | _Lack:
    folder, why_not = None, ""
    try:
        folder = cache_folder()
    except Untrusted as error:
        why_not = str(error)
    if folder is not None and (kept := _kept(wanted, folder)):
        return kept
    if lacks and lacks[-1].is_final:
        return lacks[-1]
    return _compiled(wanted, folder, why_not)


def _kept(wanted: _Wanted, folder: Path) -> Library | None:
    path = folder / wanted.name
    if not path.is_file():
        return None
    try:
        return Library(wanted.level, path, f"found in {folder}", load(path))
    except NotLoadable as error:
        logger.warning("CPU kernels are to be compiled anew: %s", error)
        try:
            path.unlink(missing_ok=True)
        except OSError:
            logger.warning("%s cannot be removed", path)
        return None


def _compiled(wanted: _Wanted, folder: Path | None, why_not: str) -> Library | _Lack:
    try:
        tool = compiler.find_compiler()
    except CannotCompile as error:
        reason = f"no compiled kernels came with the package, and {error}"
        return _Lack(reason, f"no C++ compiler for {wanted.level} was found", is_fault=False, is_final=False)
    try:
        compiler.check_flags(tool, wanted.level, min(wanted.timeout_s, compiler.CHECK_TIMEOUT_S))
        return _compile_somewhere(wanted, folder, tool, why_not)
    except UnknownFlags as error:
        reason = f"the CPU kernels cannot be compiled: {error}"
        return _Lack(reason, f"{tool} does not know {wanted.level}", is_fault=True, is_final=False)
    except (CannotCompile, NotLoadable, OSError) as error:
        reason = f"the CPU kernels cannot be compiled: {error}"
        return _Lack(reason, f"compiling for {wanted.level} failed", is_fault=True, is_final=True)


def _compile_somewhere(wanted: _Wanted, folder: Path | None, tool: Compiler, why_not: str) -> Library:
    """Compile into the cache, or where there is none, into a folder that goes as soon as the library is loaded."""
    if folder is not None:
        try:
            return _compile(wanted, folder, tool, f"kept in {folder}")
        except (OSError, NotLoadable) as error:
            why_not = f"it cannot be kept in {folder} ({error})"
    with tempfile.TemporaryDirectory(prefix="headrace-") as temporary:
        return _compile(wanted, Path(temporary), tool, f"for this process alone: {why_not}")


def _compile(wanted: _Wanted, folder: Path, tool: Compiler, where: str) -> Library:
    logger.info("the CPU kernels are compiled now, with %s, %s", tool, where)
    path = folder / wanted.name
    compiler.compile(wanted.sources, wanted.level, path, tool, wanted.timeout_s)
    return Library(wanted.level, path, f"compiled here with {tool}, {where}", load(path))


def _lowered(found: Library, lacks: Sequence[_Lack]) -> Library:
    """Say why it is of no better level, if it is not of the best."""
    if not lacks:
        return found
    cause = _cause(lacks)
    severity, why = (logging.WARNING, cause.reason) if cause.is_final else (logging.INFO, cause.brief)
    logger.log(severity, "the CPU kernels are those for %s: %s", found.level, why)
    return replace(found, origin=f"{found.origin}; {cause.brief}")


def _missing(lacks: Sequence[_Lack]) -> Missing:
    cause = _cause(lacks)
    if cause.is_fault:
        logger.warning("torch's own kernels run, as %s", cause.reason)
    return Missing(cause.reason)


def _cause(lacks: Sequence[_Lack]) -> _Lack:
    """What ended the search, or else why there is none of the best level."""
    return lacks[-1] if lacks[-1].is_final else lacks[0]


def _cache_path() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # Relative paths are to be ignored, says the XDG Base Directory Specification.
    if cache.is_absolute():
        return cache / "headrace" / "kernels"
    try:
        return Path.home() / ".cache" / "headrace" / "kernels"
    except RuntimeError as error:
        message = f"there is no home directory to keep compiled kernels in: set {VARIABLE} to a folder of your own"
        raise Untrusted(message) from error


def _is_whole(path: Path) -> bool:
    """See that nothing is cut off: the loader would map what is not there, and reading it ends the process."""
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        size = os.fstat(file.fileno()).st_size
    if len(header) < _HEADER.size or not header.startswith(b"\x7fELF"):
        return False
    fields = _HEADER.unpack(header)
    # The table of sections is what linkers write last.
    start, entry_size, num_entries = fields[6], fields[11], fields[12]
    return bool(start > 0 and start + entry_size * num_entries <= size)
