"""Exported models are kept as long as they are of the weights at hand."""

import sys
from pathlib import Path

import pytest

from .conftest import BENCH

sys.path.append(str(BENCH / "peers"))

import exported
from crews import size_of_crew
from environments import python_of, versions_of
from exported import Tool, fused
from exported import exported as export


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(exported, "_EXPORT", Tool(Path(__file__).with_name("fake_export.py"), "sentence-transformers"))
    monkeypatch.setattr(exported, "_FUSE", Tool(Path(__file__).with_name("fake_fuse.py"), "fastembed"))
    monkeypatch.setattr(exported, "python_of", lambda _: sys.executable)
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "weights").write_text("1 2 3")
    return directory


def runs(model: Path) -> list[str]:
    return model.with_name("runs").read_text().split()


def test_a_model_is_exported_once(model: Path, tmp_path: Path) -> None:
    first, second = (export("pooled", model, tmp_path) for _ in range(2))
    assert first == second
    assert (first / "model.onnx").read_text() == "1 2 3"
    assert runs(model) == ["pooled"]


def test_other_weights_are_exported_again(model: Path, tmp_path: Path) -> None:
    export("pooled", model, tmp_path)
    (model / "weights").write_text("3 2 1")
    directory = export("pooled", model, tmp_path)
    assert (directory / "model.onnx").read_text() == "3 2 1"
    assert runs(model) == ["pooled", "pooled"]


def test_graphs_of_two_kinds_lie_apart(model: Path, tmp_path: Path) -> None:
    assert export("pooled", model, tmp_path) != export("tokens", model, tmp_path)
    assert runs(model) == ["pooled", "tokens"]


def test_a_fused_graph_is_made_of_the_export_and_leaves_it_as_it_is(model: Path, tmp_path: Path) -> None:
    assert (fused("tokens", model, tmp_path) / "model.onnx").read_text() == "fused 1 2 3"
    assert (export("tokens", model, tmp_path) / "model.onnx").read_text() == "1 2 3"
    assert runs(model) == ["tokens"]


def test_a_graph_is_fused_again_when_the_weights_are_others(model: Path, tmp_path: Path) -> None:
    first = fused("tokens", model, tmp_path)
    (first / "model.onnx").write_text("kept")
    assert (fused("tokens", model, tmp_path) / "model.onnx").read_text() == "kept"
    (model / "weights").write_text("3 2 1")
    assert (fused("tokens", model, tmp_path) / "model.onnx").read_text() == "fused 3 2 1"


def test_a_failed_export_says_why_and_is_tried_again(model: Path, tmp_path: Path) -> None:
    (model / "weights").unlink()
    with pytest.raises(RuntimeError, match=r"fake_export.py scores failed: OSError: no weights in model"):
        export("scores", model, tmp_path)
    (model / "weights").write_text("4 5 6")
    assert (export("scores", model, tmp_path) / "model.onnx").read_text() == "4 5 6"


def test_a_missing_environment_is_named_with_what_makes_it() -> None:
    with pytest.raises(FileNotFoundError, match=r"install.py --only nobody"):
        python_of("nobody")


def test_versions_are_those_of_the_environment() -> None:
    assert versions_of(("pytest", "no-such-package")) == {"pytest": pytest.__version__}


@pytest.mark.parametrize(("threads", "size"), [(1, 1), (2, 2), (3, 3), (5, 1), (6, 3), (8, 4), (16, 4)])
def test_a_crew_shares_the_threads_evenly(threads: int, size: int) -> None:
    assert size_of_crew(threads) == size
