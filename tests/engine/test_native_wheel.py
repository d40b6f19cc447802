"""Wheels really built, from a copy of this repository with small kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from headrace_engine.native.compiler import LEVELS, library_name

from .native_kernels import levels_here
from .native_sources import knows, needs_compiler, write_old_compiler, write_sources

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
PACKAGES = ("contracts/headrace_contracts", "engine/headrace_engine", "workers/headrace_workers", "producer/headrace")
NATIVE = "headrace_engine/native"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = tmp_path / "copy"
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__", "built", "sources")
        )
    for file in FILES:
        shutil.copy(ROOT / file, root / file)
    write_sources(root / "engine" / NATIVE / "sources")
    return root


def built(root: Path, **environment: str) -> tuple[Path, str]:
    """Build a wheel as pip does, and give its path and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "dist")],
        cwd=root,
        env={**os.environ, "HEADRACE_BUILD_KERNELS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    (wheel,) = (root / "dist").iterdir()
    return wheel, done.stdout


def natives(wheel: Path, folder: str) -> set[str]:
    with ZipFile(wheel) as opened:
        return {Path(name).name for name in opened.namelist() if name.startswith(f"{NATIVE}/{folder}/")}


@needs_compiler
def test_a_wheel_built_with_a_compiler_runs_its_kernels_without_one(copy: Path, tmp_path: Path) -> None:
    folder = copy / "engine" / NATIVE / "built"
    folder.mkdir()
    (folder / "headrace-0123456789abcdef-avx2.so").write_text("of older sources")
    wheel, _ = built(copy)
    sources = copy / "engine" / NATIVE / "sources"
    libraries = {library_name(sources, level) for level in LEVELS if knows(level)}
    assert natives(wheel, "built") == libraries
    assert {path.name for path in folder.iterdir()} == libraries
    assert natives(wheel, "sources") == {path.name for path in sources.iterdir()}
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")

    installed = tmp_path / "installed"
    with ZipFile(wheel) as opened:
        opened.extractall(installed)
    asked = (
        "from headrace_engine.native import library; found = library.find(); print(found.path, found.origin, sep='|')"
    )
    settled = {name: value for name, value in os.environ.items() if name != "CXX"}
    path, origin = (
        subprocess.run(
            [sys.executable, "-c", asked],
            env={
                **settled,
                "PATH": "",
                "PYTHONPATH": str(installed),
                "HEADRACE_KERNELS": str(tmp_path / "cache"),
                "HEADRACE_KERNELS_LEVEL": levels_here()[0],
            },
            capture_output=True,
            text=True,
            check=True,
        )
        .stdout.strip()
        .split("|")
    )
    assert Path(path).parent == installed / NATIVE / "built"
    assert origin == "shipped with the package"
    assert not (tmp_path / "cache").exists()


@needs_compiler
def test_a_wheel_lacks_the_level_that_the_compiler_does_not_know(copy: Path, tmp_path: Path) -> None:
    old = write_old_compiler(tmp_path / "old", "-mavx512fp16")
    wheel, said = built(copy, CXX=old)
    sources = copy / "engine" / NATIVE / "sources"
    known = [level for level in LEVELS if level != "avx512fp16" and knows(level)]
    assert natives(wheel, "built") == {library_name(sources, level) for level in known}
    told = [line for line in said.splitlines() if "there will be no CPU kernels for avx512fp16" in line]
    assert len(told) == 1
    assert f"{old} does not know avx512fp16: " in told[0]
    assert "unrecognized command-line option '-mavx512fp16'" in said


@pytest.mark.parametrize(
    "environment", [{"PATH": "", "CXX": ""}, {"CXX": "false"}, {"HEADRACE_BUILD_KERNELS": "0"}], ids=str
)
def test_a_wheel_built_without_a_compiler_is_for_every_machine_and_has_the_sources(
    copy: Path, environment: dict[str, str]
) -> None:
    wheel, _ = built(copy, **environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert natives(wheel, "built") == set()
    assert natives(wheel, "sources") == {"answers.cpp", "answers.h", "more.cpp"}


def test_a_wheel_that_has_to_have_kernels_is_not_built_without_them(copy: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        built(copy, CXX="false", HEADRACE_BUILD_KERNELS="require")
    assert "no CPU kernels were compiled, and HEADRACE_BUILD_KERNELS=require" in failed.value.stdout
