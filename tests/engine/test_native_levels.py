"""Which level is had where a compiler does not know the best one, is not there, or fails.

It knows compilers that refuse options as old ones do. It does not know what this processor runs: libraries here are of
sources that any runs.
"""

import logging
from pathlib import Path

import pytest
from headrace_engine.native import compiler, processor
from headrace_engine.native.compiler import CannotCompile, Compiler, UnknownFlags, check_flags, find_compiler
from headrace_engine.native.library import Library, Missing, find

from ..waiting import until
from .native_sources import needs_compiler, without_compiler, write_compiler, write_old_compiler

BEST = "avx512fp16"
# Takes all flags and compiles nothing; what it was asked to compile is written down.
_FAILING = """#!/bin/sh
case " $* " in
*" -fsyntax-only "*)
    case " $* " in *" {unknown} "*) exit 1 ;; esac
    exit 0 ;;
esac
echo "$*" >>{asked}
echo "no space left" >&2
exit 1
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a processor that runs every level, whichever is here."""
    monkeypatch.setenv("HEADRACE_KERNELS", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADRACE_KERNELS_LEVEL", raising=False)
    monkeypatch.setattr(processor, "best_level", lambda *_: BEST)
    return tmp_path.resolve() / "cache"


def found(sources: Path, shipped: Path) -> Library:
    result = find(sources, shipped)
    assert isinstance(result, Library), result
    assert result.path.name == compiler.library_name(sources, result.level)
    assert result.cdll.tiny_more() == 7
    return result


def put(sources: Path, level: str, folder: Path) -> None:
    """Compile a library to where it will be found."""
    folder.mkdir(mode=0o700, exist_ok=True)
    compiler.compile(sources, level, folder / compiler.library_name(sources, level), find_compiler())


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


# What a compiler knows


@needs_compiler
def test_a_compiler_is_asked_with_the_flags_of_a_level(tmp_path: Path) -> None:
    old = Compiler((write_old_compiler(tmp_path / "g++", "-mavx512fp16"),))
    check_flags(old, "avx512")
    with pytest.raises(UnknownFlags) as raised:
        check_flags(old, "avx512fp16")
    first, last = str(raised.value).splitlines()
    assert first.startswith(f"{old} does not know avx512fp16: {old} -std=c++17 ")
    assert first.endswith(" ended with status 1")
    assert last == "g++: error: unrecognized command-line option '-mavx512fp16'"
    assert [path.name for path in tmp_path.iterdir()] == ["g++"]


@needs_compiler
def test_the_compiler_at_hand_knows_the_lowest_level_and_nothing_beyond_its_time() -> None:
    check_flags(find_compiler(), "avx2")
    with pytest.raises(UnknownFlags, match="-mavx1024"):
        check_flags(Compiler((*find_compiler().command, "-mavx1024")), "avx2")


async def test_one_that_hangs_is_ended_and_not_taken_for_one_that_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "number"
    hanging = Compiler(("sh", "-c", f"sleep 600 & echo $! > {file}; wait"))
    with pytest.raises(CannotCompile, match="took more than 1 s") as raised:
        check_flags(hanging, "avx2", timeout_s=1)
    assert not isinstance(raised.value, UnknownFlags)
    status = Path("/proc") / file.read_text().strip() / "status"
    # Ended, it may still be in the list until whoever inherited it has looked.
    await until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "what the compiler started is gone")


def test_the_levels_from_one_down_are_in_their_order() -> None:
    assert compiler.levels_from(BEST) == tuple(compiler.LEVELS)
    assert compiler.levels_from("avx512") == ("avx512", "avx2")
    assert compiler.levels_from("avx2") == ("avx2",)


# An old compiler


@needs_compiler
@pytest.mark.parametrize("asked", ["", BEST])
def test_a_compiler_that_does_not_know_the_best_level_makes_the_next(
    sources: Path,
    shipped: Path,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    asked: str,
) -> None:
    monkeypatch.setenv("HEADRACE_KERNELS_LEVEL", asked)
    old = write_old_compiler(tmp_path / "old", "-mavx512fp16")
    monkeypatch.setenv("CXX", old)
    caplog.set_level(logging.INFO)
    first = found(sources, shipped)
    assert first.level == "avx512bf16"
    assert first.origin == f"compiled here with {old}, kept in {cache}; {old} does not know avx512fp16"
    assert lines(caplog, logging.INFO) == [
        f"the CPU kernels are compiled now, with {old}, kept in {cache}",
        f"the CPU kernels are those for avx512bf16: {old} does not know avx512fp16",
    ]
    assert [path.name for path in cache.iterdir()] == [first.path.name]
    second = found(sources, shipped)
    assert (second.path, second.origin) == (first.path, f"found in {cache}; {old} does not know avx512fp16")
    assert not lines(caplog, logging.WARNING)


@needs_compiler
def test_a_lower_level_that_is_asked_for_is_no_fall(
    sources: Path, shipped: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write_old_compiler(tmp_path / "old", "-mavx512fp16")
    monkeypatch.setenv("CXX", old)
    monkeypatch.setenv("HEADRACE_KERNELS_LEVEL", "avx512")
    result = found(sources, shipped)
    assert (result.level, result.origin) == ("avx512", f"compiled here with {old}, kept in {cache}")


@needs_compiler
def test_a_newer_compiler_makes_a_better_level_at_the_next_start(
    sources: Path, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = write_old_compiler(tmp_path / "older", "-mavx512fp16", "-mavx512bf16")
    old = write_old_compiler(tmp_path / "old", "-mavx512fp16")
    monkeypatch.setenv("CXX", older)
    result = found(sources, shipped)
    assert result.level == "avx512"
    assert result.origin.endswith(f"; {older} does not know avx512fp16")
    monkeypatch.setenv("CXX", old)
    assert found(sources, shipped).level == "avx512bf16"


def test_one_that_knows_no_level_leaves_torch_to_run_and_the_reason_is_that_of_the_best(
    sources: Path, shipped: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "sh -c 'echo no such flag >&2; exit 1'")
    result = find(sources, shipped)
    assert isinstance(result, Missing)
    assert result.reason.startswith(f"the CPU kernels cannot be compiled: {find_compiler()} does not know {BEST}: ")
    assert result.reason.endswith(" ended with status 1\nno such flag")
    assert lines(caplog, logging.WARNING) == [f"torch's own kernels run, as {result.reason}"]
    assert not list(cache.iterdir())


# No compiler


@needs_compiler
@pytest.mark.parametrize(("place", "origin"), [("built", "shipped with the package"), ("cache", "found in {}")])
def test_without_a_compiler_a_lower_level_that_is_here_is_taken(
    sources: Path,
    shipped: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    origin: str,
) -> None:
    for level in ("avx2", "avx512"):
        put(sources, level, cache.parent / place)
    without_compiler(monkeypatch)
    caplog.set_level(logging.INFO)
    result = found(sources, shipped)
    assert result.level == "avx512"
    assert result.origin == f"{origin.format(cache)}; no C++ compiler for {BEST} was found"
    assert lines(caplog, logging.INFO) == [
        f"the CPU kernels are those for avx512: no C++ compiler for {BEST} was found"
    ]


def test_without_a_compiler_and_libraries_that_is_the_reason_and_no_cause_to_warn(
    sources: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_compiler(monkeypatch)
    assert find(sources, shipped) == Missing(
        "no compiled kernels came with the package, and there is no C++ compiler: "
        "install one of c++, g++, clang++, or set CXX"
    )
    assert not lines(caplog, logging.WARNING)


# A compiler that fails


@pytest.mark.parametrize("unknown", ["none", "-mavx512fp16"])
def test_after_a_compilation_that_failed_no_other_is_tried(
    sources: Path,
    shipped: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    unknown: str,
) -> None:
    asked = tmp_path / "asked"
    monkeypatch.setenv("CXX", write_compiler(tmp_path / "cc", _FAILING.format(unknown=unknown, asked=asked)))
    result = find(sources, shipped)
    assert isinstance(result, Missing)
    assert result.reason.startswith(f"the CPU kernels cannot be compiled: {tmp_path / 'cc'} -std=c++17 ")
    assert result.reason.endswith(" ended with status 1\nno space left")
    assert len(asked.read_text().splitlines()) == 1
    assert lines(caplog, logging.WARNING) == [f"torch's own kernels run, as {result.reason}"]


@needs_compiler
def test_after_a_compilation_that_failed_a_lower_level_that_is_here_is_taken(
    sources: Path, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(sources, "avx2", shipped)
    asked = tmp_path / "asked"
    monkeypatch.setenv("CXX", write_compiler(tmp_path / "cc", _FAILING.format(unknown="none", asked=asked)))
    result = found(sources, shipped)
    assert (result.level, result.origin) == ("avx2", f"shipped with the package; compiling for {BEST} failed")
    assert len(asked.read_text().splitlines()) == 1
    (warned,) = lines(caplog, logging.WARNING)
    assert warned.startswith("the CPU kernels are those for avx2: the CPU kernels cannot be compiled: ")
    assert warned.endswith("no space left")
