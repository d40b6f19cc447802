"""What the repository says of speed is what its newest kept result says."""

import io
from pathlib import Path

import pytest
from reporting import console, markdown, readme
from reporting.names import stem
from result import Result
from rich.console import Console

from .conftest import BENCH

KEPT = sorted(BENCH.glob("results/????-??-??-*.json"))
ROOT = BENCH.parent


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_every_kept_result_can_still_be_shown(file: Path) -> None:
    found = Result.load(file)
    terminal = Console(file=io.StringIO(), width=console.WIDTH)
    for part in console.report(found):
        terminal.print(part)
    page = markdown.page(found, [])
    for ceiling in found.ceilings:
        assert f"{ceiling.gflops:,.0f} GFLOP/s" in page
    for each in found.contenders:
        assert each.label in page


@pytest.fixture(scope="module")
def newest() -> Result:
    return Result.load(KEPT[-1])


def test_a_kept_result_is_of_a_full_run_of_a_commit(newest: Result) -> None:
    assert newest.mode == "full"
    assert not newest.machine.dirty
    assert KEPT[-1].stem == stem(newest)
    assert newest.unmeasured == {}


def test_the_readme_shows_the_newest_result(newest: Result) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    link = KEPT[-1].with_suffix(".md").relative_to(ROOT).as_posix()
    assert readme.update(text, newest, link) == text, "run python bench/show.py RESULT.json --readme README.md"


def test_the_page_is_that_of_the_result_and_its_pictures_are_there(newest: Result, tmp_path: Path) -> None:
    page = markdown.write(newest, tmp_path)
    kept = KEPT[-1].with_suffix(".md")
    assert page.read_text("utf-8") == kept.read_text("utf-8")
    pictures = {file.name for file in (tmp_path / page.stem).iterdir()}
    assert pictures == {file.name for file in kept.with_suffix("").iterdir()}
