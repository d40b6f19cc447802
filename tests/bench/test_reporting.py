"""A report shows all that was found, the same way each time, where it should be seen."""

import io
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from reporting import console, markdown, plots, readme
from reporting.plots.overview import overview
from reporting.plots.style import apart, look
from result import Result
from rich.console import Console

from .conftest import BENCH
from .results import changed, in_float16, result, without_peers

README = f"# Headrace\n\n{readme.BEGIN}\nold\n{readme.END}\n\nMore.\n"
LINK = "bench/results/2026-11-29-epyc-2-cores.md"


def printed(found: Result) -> str:
    terminal = Console(file=io.StringIO(), width=console.WIDTH, record=True)
    for part in console.report(found):
        terminal.print(part)
    return terminal.export_text()


def page(found: Result) -> str:
    return markdown.page(found, [plot.__name__ for plot in plots.PLOTS])


def squeezed(text: str) -> str:
    """Without line breaks, as rich wraps long cells."""
    return " ".join(text.split())


def wrong() -> Result:
    return changed(result(), "headrace", 0, 2, is_right=False, divergence=0.021)


def bare() -> Result:
    """What a run may leave out, left out."""
    return replace(without_peers(result()), parts=(), economics=None, calibrated=None)


def one_round() -> Result:
    found = result()
    for suite, each in enumerate(found.suites):
        for case, one in enumerate(each.cases):
            for entry in one.entries:
                found = changed(found, entry.contender, suite, case, rounds_ms=entry.rounds_ms[:1])
    return replace(found, mode="quick")


@pytest.mark.parametrize("found", [result(), in_float16(result())])
@pytest.mark.parametrize("render", [printed, page])
def test_every_suite_case_and_contender_appears(render: Callable[[Result], str], found: Result) -> None:
    text = squeezed(render(found))
    for suite in found.suites:
        assert suite.title in text
        assert all(case.name in text for case in suite.cases)
    assert all(contender.label in text for contender in found.contenders)
    assert "no URL was given: --tei-url" in text
    assert "846 GFLOP/s" in text


@pytest.mark.parametrize(
    "found", [result(), in_float16(result()), wrong(), bare(), one_round(), without_peers(result())]
)
def test_the_console_fits_100_columns(found: Result) -> None:
    assert max(map(len, printed(found).splitlines())) <= 100


@pytest.mark.parametrize("render", [printed, page, lambda found: readme.block(found, LINK)])
def test_ours_that_is_wrong_cannot_be_overlooked(render: Callable[[Result], str]) -> None:
    assert "is not right" in squeezed(render(wrong())).lower()
    assert "divergence 2.1e-2" in squeezed(render(wrong()))
    assert "is not right" not in squeezed(render(result())).lower()


def test_what_looks_like_markup_in_a_reason_is_printed_as_it_is() -> None:
    found = changed(result(), "headrace", 0, 2, is_right=False, reason="list[int] [/nothing] [red]")
    assert printed(found).count("list[int] [/nothing] [red]") == 2


def test_a_peer_that_is_wrong_is_shown_as_wrong_and_with_its_divergence() -> None:
    found = changed(result(), "openvino-bf16", 0, 2, is_right=False, divergence=0.021)
    for text in (squeezed(printed(found)), page(found)):
        assert "OpenVINO bf16, 512 tokens: is wrong: divergence 2.1e-2, the bound is 1e-3" in text


def test_the_verdicts_are_the_last_thing_on_the_terminal() -> None:
    tail = printed(result()).partition("What it comes to")[2]
    assert "Where it is behind" in tail
    assert "behind OpenVINO bf16" in tail


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a full result's report."""
    folder = tmp_path_factory.mktemp("report")
    markdown.write(result(), folder)
    return folder


def test_the_same_result_gives_the_same_bytes_in_another_process(written: Path, tmp_path: Path) -> None:
    result().save(tmp_path / "result.json")
    code = """
import pathlib, sys
sys.path.append(sys.argv[1])
from reporting import markdown
from result import Result
markdown.write(Result.load(pathlib.Path("result.json")), pathlib.Path("again"))
"""
    environment = os.environ | {"PYTHONHASHSEED": "1"}  # sets and dicts of sets come in another order
    subprocess.run([sys.executable, "-c", code, str(BENCH)], cwd=tmp_path, env=environment, check=True)
    assert contents(tmp_path / "again") == contents(written)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_every_picture_of_a_page_is_there_and_none_is_left_over(written: Path) -> None:
    (file,) = written.glob("*.md")
    shown = {line.partition("](")[2].rstrip(")") for line in file.read_text("utf-8").splitlines() if line[:2] == "!["}
    assert shown == {str(path.relative_to(written)) for path in written.rglob("*.svg")}
    assert {Path(name).stem for name in shown} == {plot.__name__ for plot in plots.PLOTS}


def test_a_bare_result_has_the_pictures_that_need_no_peer(tmp_path: Path) -> None:
    assert plots.draw(bare(), tmp_path) == {"concurrency", "ceiling"}


@pytest.mark.parametrize("found", [wrong(), one_round(), in_float16(result())])
def test_an_overview_can_be_drawn_of_what_is_partly_missing(found: Result) -> None:
    with look():
        assert overview(found) is not None


def test_pictures_are_opaque_and_carry_no_date(written: Path) -> None:
    for file in written.rglob("*.svg"):
        svg = file.read_text("utf-8")
        assert "<dc:date>" not in svg
        assert "fill: #ffffff" in svg


def test_a_page_names_no_page_that_is_not_beside_it() -> None:
    assert "http" not in page(result()).replace("--tei-url http://…", "")


def test_a_bar_in_a_reason_does_not_break_a_table() -> None:
    line = next(line for line in page(result()).splitlines() if line.startswith("| ONNX Runtime int8"))
    assert line.replace("\\|", "").count("|") == 4


def test_the_readme_changes_between_its_markers_only() -> None:
    once = readme.update(README, result(), LINK)
    assert once.startswith(f"# Headrace\n\n{readme.BEGIN}\n")
    assert once.endswith(f"\n{readme.END}\n\nMore.\n")
    assert "old" not in once
    assert readme.update(once, result(), LINK) == once
    assert readme.update(readme.update(README, bare(), LINK), result(), LINK) == once


def test_the_readme_shows_the_picture_the_link_the_machine_and_where_it_is_behind() -> None:
    block = readme.block(result(), LINK)
    assert "](bench/results/2026-11-29-epyc-2-cores/overview.svg)" in block
    assert f"]({LINK})" in block
    assert "AMD EPYC 9B45, 2 cores" in block
    assert "behind OpenVINO bf16" in block
    assert sum(line.startswith("|") for line in block.splitlines()) <= 2 + 8


def test_the_readme_shows_no_picture_where_nothing_was_compared() -> None:
    block = readme.block(bare(), LINK)
    assert "overview.svg" not in block
    assert "make bench-peers" in block


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        readme.BEGIN,
        f"{readme.END}\n{readme.BEGIN}",
        f"{README}{README}",
        f"{readme.BEGIN}{README}",
    ],
)
def test_a_readme_without_its_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="put <!-- bench:begin --> and <!-- bench:end --> on lines"):
        readme.update(text, result(), LINK)


def test_a_result_survives_its_json(tmp_path: Path) -> None:
    result().save(tmp_path / "result.json")
    assert page(Result.load(tmp_path / "result.json")) == page(result())


@pytest.mark.parametrize("positions", [[0.5, 0.5, 0.5], [0.9, 0.1, 0.12, 0.14], [0.3], []])
def test_labels_are_moved_apart_and_keep_their_order(positions: list[float]) -> None:
    placed = apart(positions, 0.06)
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    heights = [placed[index] for index in order]
    assert all(after - before >= 0.06 - 1e-9 for before, after in itertools.pairwise(heights))
    assert sum(placed) == pytest.approx(sum(positions))
