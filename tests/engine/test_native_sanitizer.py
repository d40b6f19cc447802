"""The compiled kernels under sanitizers: nothing beside an array, nothing undefined, no races; and right besides.

sanitized.cpp makes the calls. This file knows how it is compiled with the sources, for levels that have all of their
code between them, and what a sanitizer says. It does not know what is computed.
"""

import functools
import os
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from headrace_engine.native import compiler, library

from .native_kernels import levels_here
from .native_sources import needs_compiler

# Compiling is most of it, and waited for by the first tests.
pytestmark = [needs_compiler, pytest.mark.timeout(400)]

DRIVER = Path(__file__).with_name("sanitized.cpp")
SANITIZERS = {"memory": "address,undefined", "threads": "thread"}
NUM_CASES = {"memory": 8, "threads": 4}
SEEDS = (1, 2026)
PATIENCE_S = 300
# All of its code is in the programs of its neighbours: attention in that of the level above, products in the one below.
IN_OTHERS = "avx512bf16"
# Lines are enough to read a report by, and all tiles in one function would take three times as long to compile.
DEBUGGED = ("-O1", "-g1", "-fno-omit-frame-pointer", "-fno-inline-functions-called-once")


@dataclass(frozen=True, slots=True)
class Program:
    """The driver, compiled with one sanitizer for one level."""

    path: Path

    def run(self, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        # Whoever runs the tests may have set options that turn reports off.
        environment = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}
        return subprocess.run(
            [self.path, *arguments],
            env=environment | {"UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=1"} | options,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )


Programs = Mapping[tuple[str, str], Future[Program]]


def levels() -> tuple[str, ...]:
    """Those that have all code between them which this processor runs, best first."""
    here = levels_here()
    return tuple(level for level in here if level != IN_OTHERS or level == here[0])


def wanted() -> tuple[tuple[str, str], ...]:
    """Levels and sanitizers; who writes which rows follows from how wide vectors are, so threads want two levels."""
    widths = {*levels()[:1], *levels()[-1:]}
    return tuple(pair for pair in product(levels(), SANITIZERS) if pair[1] == "memory" or pair[0] in widths)


def compile_with(*arguments: str) -> None:
    """Call the compiler.

    Raises:
        AssertionError: It failed; what it said is the message.
    """
    command = (*compiler.find_compiler().command, "-pthread", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def checks(sanitizer: str) -> tuple[str, ...]:
    return f"-fsanitize={SANITIZERS[sanitizer]}", "-fno-sanitize-recover=all"


def build(folder: Path, driver: Path, level: str, sanitizer: str) -> Program:
    made = folder / f"{level}-{sanitizer}"
    flags = (flag for flag in compiler.flags(level) if flag != "-shared")
    units = (str(file) for file in compiler.source_files(library.SOURCES) if file.suffix == ".cpp")
    compile_with(*flags, *DEBUGGED, *checks(sanitizer), *units, str(driver), "-o", str(made))
    return Program(made)


@functools.cache
def lack(sanitizer: str, folder: Path) -> str:
    """Why a program of nothing cannot be compiled with a sanitizer and run here; empty if it can."""
    source, made = folder / f"nothing-{sanitizer}.cpp", folder / f"nothing-{sanitizer}"
    source.write_text("int main() {}\n")
    try:
        compile_with(*checks(sanitizer), str(source), "-o", str(made))
    except AssertionError as error:
        return f"the compiler has no -fsanitize={SANITIZERS[sanitizer]}: {error}"
    done = Program(made).run()
    return f"the sanitizer does not run here: {done.stderr}" if done.returncode else ""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """All of them, compiled two at a time from the first test on."""
    folder = tmp_path_factory.mktemp("sanitized")
    able = [pair for pair in wanted() if not lack(pair[1], folder)]
    # Any processor runs it, and what it calls is what is to be looked at: so once will do for all.
    driver = folder / "driver.o"
    compile_with("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-c", str(DRIVER), "-o", str(driver))
    with ThreadPoolExecutor(2) as threads:
        yield {pair: threads.submit(build, folder, driver, *pair) for pair in able}


def program_of(programs: Programs, level: str, sanitizer: str, folder: Path) -> Program:
    if (level, sanitizer) not in programs:
        pytest.skip(lack(sanitizer, folder))
    return programs[level, sanitizer].result()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("level", "sanitizer"), wanted())
def test_any_call_keeps_to_its_arrays_and_gives_what_plain_loops_give(
    programs: Programs, level: str, sanitizer: str, seed: int, tmp_path: Path
) -> None:
    program = program_of(programs, level, sanitizer, tmp_path)
    done = program.run("cases", str(seed), str(NUM_CASES[sanitizer]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{18 * NUM_CASES[sanitizer]} cases agree\n"


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("array", ["query", "key", "value", "out", "rows", "made", "normal", "residual"])
def test_an_array_that_lacks_a_row_is_reported(programs: Programs, level: str, array: str, tmp_path: Path) -> None:
    program = program_of(programs, level, "memory", tmp_path)
    done = program.run("short", array, ASAN_OPTIONS="symbolize=0")  # nobody reads where
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr


@pytest.mark.parametrize("level", levels())
def test_the_same_call_without_a_lack_is_not(programs: Programs, level: str, tmp_path: Path) -> None:
    done = program_of(programs, level, "memory", tmp_path).run("short", "nothing")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("level", [level for level, sanitizer in wanted() if sanitizer == "threads"])
def test_calls_that_write_the_same_rows_at_once_are_reported(programs: Programs, level: str, tmp_path: Path) -> None:
    done = program_of(programs, level, "threads", tmp_path).run("race")
    assert done.returncode != 0
    assert "ThreadSanitizer: data race" in done.stderr
