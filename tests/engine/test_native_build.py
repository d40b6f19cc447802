"""Libraries compiled from small sources, found again, and refused."""

import logging
import os
import stat
import subprocess
from pathlib import Path

import pytest
from headrace_engine.native import compiler, library
from headrace_engine.native.compiler import LEVELS, CannotCompile, Compiler, command_line, digest, find_compiler
from headrace_engine.native.library import Library, Missing, NotLoadable, Untrusted, cache_folder, find

from ..waiting import until
from .native_sources import knows, needs_compiler, without_compiler, write_sources

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_KERNELS", str(tmp_path / "cache" / "kernels"))
    monkeypatch.setenv("HEADRACE_KERNELS_LEVEL", "avx2")
    return tmp_path.resolve() / "cache" / "kernels"


def found(sources: Path, shipped: Path) -> Library:
    result = find(sources, shipped)
    assert isinstance(result, Library), result
    assert result.level == "avx2"
    assert result.cdll.tiny_more() == 7
    return result


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# The compiler


def test_the_compiler_that_is_asked_for_may_have_arguments() -> None:
    found = find_compiler({"CXX": "sh -c 'exit 1'", "PATH": os.defpath})
    assert found == Compiler(("sh", "-c", "exit 1"))
    assert str(found) == "sh -c 'exit 1'"


def test_without_a_wish_the_first_usual_compiler_on_the_path_is_taken(tmp_path: Path) -> None:
    for name in ("clang++", "g++"):
        (tmp_path / name).touch(mode=0o755)
    assert find_compiler({"PATH": str(tmp_path), "CXX": " "}) == Compiler(("g++",))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("", r"there is no C\+\+ compiler: install one of c\+\+, g\+\+, clang\+\+, or set CXX"),
        ("g++-99 -v", r"CXX='g\+\+-99 -v' names no program that is here"),
        ("'g++", "cannot be split into words"),
    ],
)
def test_where_there_is_no_compiler_it_is_said_why(tmp_path: Path, asked: str, message: str) -> None:
    with pytest.raises(CannotCompile, match=message):
        find_compiler({"PATH": str(tmp_path), "CXX": asked})


def test_one_command_compiles_all_sources_and_no_header() -> None:
    files = (Path("a.cpp"), Path("b.h"), Path("c.cpp"))
    command = command_line(Compiler(("ccache", "g++")), files, "avx512fp16", Path("made.so"))
    assert command[:3] == ("ccache", "g++", "-std=c++17")
    assert command[-8:] == (
        "-march=x86-64-v4",
        "-mavx512bf16",
        "-mavx512fp16",
        "-mprefer-vector-width=512",
        "a.cpp",
        "c.cpp",
        "-o",
        "made.so",
    )
    assert not {"-fopenmp", "-lgomp"} & set(command)


def test_a_library_is_named_for_flags_names_and_bytes() -> None:
    contents = [("a.cpp", b"int a;"), ("b.h", b"int b;")]
    variants = [
        [("a.cpp", b"int a;"), ("b.h", b"int c;")],
        [("a.cpp", b"int a;"), ("c.h", b"int b;")],
        [("a.cpp", b"int a;b"), (".h", b"int b;")],
        contents[:1],
        contents[::-1],
    ]
    names = [digest("avx2", contents), digest("avx512", contents), *(digest("avx2", each) for each in variants)]
    assert len(set(names)) == len(names)
    assert digest("avx2", contents) == digest("avx2", contents)
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in names)


def test_a_change_to_a_header_changes_the_name(sources: Path) -> None:
    before = compiler.library_name(sources, "avx2")
    assert before.startswith("headrace-")
    assert before.endswith("-avx2.so")
    with (sources / "answers.h").open("a") as header:
        header.write("\n")
    assert compiler.library_name(sources, "avx2") != before


@needs_compiler
def test_a_package_without_sources_has_no_kernels(tmp_path: Path, cache: Path) -> None:
    result = find(tmp_path, tmp_path)
    assert isinstance(result, Missing)
    assert result.reason == f"{tmp_path} holds no C++ sources: install Headrace anew"
    assert not cache.exists()


def test_a_failure_tells_the_command_and_what_was_said_last_and_leaves_all_as_it_was(
    sources: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kept" / "a.so"
    target.parent.mkdir()
    target.write_text("the one before")
    failing = Compiler(("sh", "-c", "seq 100 >&2; exit 3"))
    with pytest.raises(CannotCompile) as raised:
        compiler.compile(sources, "avx2", target, failing)
    first, *said = str(raised.value).splitlines()
    assert first.startswith("sh -c 'seq 100 >&2; exit 3' -std=c++17 ")
    assert first.endswith(" ended with status 3")
    assert said == [str(number) for number in range(91, 101)]
    assert [path.name for path in target.parent.iterdir()] == ["a.so"]
    assert target.read_text() == "the one before"


def test_a_compiler_that_makes_nothing_is_told(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotCompile, match="made no library"):
        compiler.compile(sources, "avx2", tmp_path / "a.so", Compiler(("true",)))


def test_a_compiler_that_cannot_be_started_is_told(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "g++").touch(mode=0o755)
    (tmp_path / "g++").write_text("#!/no/such/program\n")
    with pytest.raises(CannotCompile, match="cannot be started: No such file or directory"):
        compiler.compile(sources, "avx2", tmp_path / "a.so", Compiler((str(tmp_path / "g++"),)))


async def test_one_that_hangs_is_ended_with_all_that_it_started(sources: Path, tmp_path: Path) -> None:
    file = tmp_path / "number"
    hanging = Compiler(("sh", "-c", f"sleep 600 & echo $! > {file}; wait"))
    with pytest.raises(CannotCompile, match="took more than 1 s"):
        compiler.compile(sources, "avx2", tmp_path / "a.so", hanging, timeout_s=1)
    status = Path("/proc") / file.read_text().strip() / "status"

    def is_gone() -> bool:
        # Ended, it may still be in the list until whoever inherited it has looked.
        try:
            return "State:\tZ" in status.read_text()
        except OSError:
            return True

    await until(is_gone, "what the compiler started is gone")


# The library


@needs_compiler
def test_what_was_compiled_once_is_found_by_the_next(sources: Path, shipped: Path, cache: Path) -> None:
    first = found(sources, shipped)
    assert first.origin == f"compiled here with {find_compiler()}, kept in {cache}"
    assert [path.name for path in cache.iterdir()] == [first.path.name]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    second = found(sources, shipped)
    assert (second.path, second.origin) == (first.path, f"found in {cache}")


@needs_compiler
def test_a_shipped_library_is_taken_first_and_needs_no_compiler(
    sources: Path, shipped: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped.mkdir()
    path = shipped / compiler.library_name(sources, "avx2")
    compiler.compile(sources, "avx2", path, find_compiler())
    without_compiler(monkeypatch)
    result = found(sources, shipped)
    assert (result.path, result.origin) == (path, "shipped with the package")
    assert not cache.exists()


@needs_compiler
def test_a_library_of_other_sources_is_not_looked_at(
    sources: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(sources, shipped)
    (sources / "more.cpp").write_text("// gone\n")
    without_compiler(monkeypatch)
    assert find(sources, shipped) == Missing(
        "no compiled kernels came with the package, and there is no C++ compiler: "
        "install one of c++, g++, clang++, or set CXX"
    )


@needs_compiler
@pytest.mark.parametrize("num_bytes", [0, 40, 1000, -1])
def test_a_kept_library_that_is_cut_off_is_compiled_anew(
    sources: Path, shipped: Path, cache: Path, caplog: pytest.LogCaptureFixture, num_bytes: int
) -> None:
    path = cache_folder() / compiler.library_name(sources, "avx2")
    compiler.compile(sources, "avx2", path, find_compiler())
    path.write_bytes(path.read_bytes()[:num_bytes])
    assert found(sources, shipped).origin.startswith("compiled here")
    assert warnings(caplog) == [f"CPU kernels are to be compiled anew: {path} is not a whole library"]
    assert found(sources, shipped).origin == f"found in {cache}"


@needs_compiler
def test_a_kept_library_for_another_machine_is_compiled_anew(sources: Path, shipped: Path) -> None:
    path = cache_folder() / compiler.library_name(sources, "avx2")
    compiler.compile(sources, "avx2", path, find_compiler())
    content = bytearray(path.read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # AArch64
    path.write_bytes(content)
    assert found(sources, shipped).origin.startswith("compiled here")


@needs_compiler
def test_a_kept_library_of_another_abi_is_compiled_anew_and_let_go_of(
    sources: Path, shipped: Path, tmp_path: Path
) -> None:
    path = cache_folder() / compiler.library_name(sources, "avx2")
    compiler.compile(write_sources(tmp_path / "newer", abi=99), "avx2", path, find_compiler())
    with pytest.raises(NotLoadable, match=f"has 99 ABI, and {library.ABI} is wanted"):
        library.load(path)
    result = found(sources, shipped)
    assert result.origin.startswith("compiled here")
    assert result.cdll.headrace_abi() == library.ABI


@needs_compiler
def test_a_library_that_is_none_of_ours_is_refused(sources: Path, tmp_path: Path) -> None:
    (sources / "answers.cpp").unlink()
    compiler.compile(sources, "avx2", tmp_path / "a.so", find_compiler())
    with pytest.raises(NotLoadable, match=r"a\.so has no ABI"):
        library.load(tmp_path / "a.so")


@needs_compiler
def test_a_shipped_library_that_cannot_be_loaded_is_passed_over(
    sources: Path, shipped: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shipped.mkdir()
    path = shipped / compiler.library_name(sources, "avx2")
    path.write_text("no library")
    assert found(sources, shipped).path.parent == cache
    assert warnings(caplog) == [
        f"the CPU kernels shipped with the package cannot be loaded: {path} is not a whole library"
    ]
    assert path.read_text() == "no library"


@needs_compiler
def test_without_a_folder_to_keep_it_in_a_process_has_a_library_of_its_own(
    sources: Path, shipped: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not cache.exists()
    monkeypatch.setenv("HEADRACE_KERNELS", os.devnull)
    result = found(sources, shipped)
    assert result.origin == (
        f"compiled here with {find_compiler()}, for this process alone: "
        f"{os.devnull} cannot be made (File exists): set HEADRACE_KERNELS to a folder of your own"
    )
    assert not result.path.parent.exists()


@needs_compiler
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_nothing_is_loaded_from_a_folder_that_others_may_write_to(
    sources: Path, shipped: Path, cache: Path, mode: int
) -> None:
    kept = found(sources, shipped).path
    cache.chmod(mode)
    kept.unlink()  # in its place it would be cut off under the library that this process has loaded
    kept.write_text("someone else's")
    result = found(sources, shipped)
    assert f"for this process alone: others may write to {cache}: chmod go-w it" in result.origin
    assert kept.read_text() == "someone else's"


def test_a_link_to_the_cache_is_followed_once_for_all(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    (tmp_path / "link").symlink_to(cache)
    monkeypatch.setenv("HEADRACE_KERNELS", str(tmp_path / "link"))
    assert cache_folder() == cache.resolve()


def test_nothing_is_loaded_from_a_folder_of_another_user(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        cache.mkdir(parents=True)
        os.chown(cache, 12345, -1)
    else:
        monkeypatch.setenv("HEADRACE_KERNELS", "/")
    with pytest.raises(Untrusted, match="belongs to another user: set HEADRACE_KERNELS to a folder of your own"):
        cache_folder()


@pytest.mark.parametrize(
    ("xdg", "expected"), [("{}/xdg", "xdg/headrace/kernels"), ("relative", "home/.cache/headrace/kernels")]
)
def test_the_cache_is_in_the_users_own_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: str, expected: str
) -> None:
    monkeypatch.delenv("HEADRACE_KERNELS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg.format(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == (tmp_path / expected).resolve()
    assert (tmp_path / expected).is_dir()


@needs_compiler
@pytest.mark.parametrize(
    ("command", "timeout_s", "message"),
    [
        ("sh -c 'echo no such flag >&2; exit 1'", PATIENCE_S, "ended with status 1\nno such flag"),
        ("sh -c 'sleep 600; :'", 0.5, "took more than 0.5 s"),
    ],
)
def test_a_compiler_that_fails_leaves_torch_to_run(
    sources: Path,
    shipped: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    command: str,
    timeout_s: float,
    message: str,
) -> None:
    monkeypatch.setenv("CXX", command)
    result = find(sources, shipped, timeout_s)
    assert isinstance(result, Missing)
    assert result.reason.startswith(f"the CPU kernels cannot be compiled: {command} ")
    assert result.reason.endswith(message)
    assert warnings(caplog) == [f"torch's own kernels run, as {result.reason}"]
    assert not list(cache_folder().iterdir())


def test_none_needs_neither_compiler_nor_cache(
    sources: Path, shipped: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KERNELS_LEVEL", "none")
    assert find(sources, shipped) == Missing("HEADRACE_KERNELS_LEVEL=none asks for torch's own")
    assert not cache.exists()


# The real sources


@needs_compiler
@pytest.mark.parametrize("level", LEVELS)
def test_the_kernels_compile_for_every_level(level: str) -> None:
    if not knows(level):
        pytest.skip(f"{find_compiler()} does not know {level}")
    command = command_line(find_compiler(), compiler.source_files(library.SOURCES), level, Path(os.devnull))
    done = subprocess.run([*command, "-fsyntax-only"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_the_kernels_of_this_processor_are_found_or_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KERNELS", str(tmp_path))
    monkeypatch.delenv("HEADRACE_KERNELS_LEVEL", raising=False)
    result = find()
    assert isinstance(result, Library), result
    assert result.path.name == compiler.library_name(library.SOURCES, result.level)
