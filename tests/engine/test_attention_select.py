import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from typing import Any

import pytest
import torch
from headrace_engine import UnsupportedModel
from headrace_engine.attention import AttentionShape, installed
from headrace_engine.attention.rules import OBSTACLES
from headrace_engine.attention.select import PUBLISHED, Case, DeviceFacts, Row, choose
from headrace_engine.native.library import Missing

PLAIN = AttentionShape(num_heads=16, num_kv_heads=8, head_dim=128)
CPU = DeviceFacts(kind="cpu", name="a CPU")
EVERY: Mapping[str, str] = {}  # nothing is missing


def gpu(major: int, minor: int = 0) -> DeviceFacts:
    return DeviceFacts(kind="cuda", name="a GPU", capability=(major, minor))


def case(device: DeviceFacts, *shapes: AttentionShape, **changes: Any) -> Case:
    return replace(Case(device=device, shapes=shapes or (PLAIN,), dtype=torch.bfloat16, max_length=512), **changes)


NARROW = replace(PLAIN, num_kv_heads=16, head_dim=32)  # MiniLM, e5-small, bge-small
LOCAL = replace(PLAIN, num_kv_heads=16, head_dim=64, window=64)  # ModernBERT
WIDE = replace(PLAIN, num_kv_heads=1, head_dim=256)


@pytest.mark.parametrize(
    ("asked", "missing", "backend"),
    [
        (case(CPU), EVERY, "ragged"),
        (case(CPU, dtype=torch.float32), EVERY, "ragged"),
        (case(CPU, NARROW, LOCAL), EVERY, "ragged"),
        (case(CPU), {"ragged": "there is no compiler"}, "sdpa"),
        (case(CPU, dtype=torch.float64), EVERY, "sdpa"),
        (case(CPU, replace(PLAIN, head_dim=48)), EVERY, "sdpa"),
        (case(CPU, replace(PLAIN, has_position_bias=True)), EVERY, "sdpa"),
        (case(gpu(9), dtype=torch.float32), EVERY, "sdpa"),
        (case(gpu(9), replace(PLAIN, has_position_bias=True)), EVERY, "sdpa"),
        (case(gpu(8), NARROW), {"varlen": "gone"}, "sdpa"),
        (case(gpu(7, 5)), EVERY, "sdpa"),
        (case(gpu(8)), EVERY, "fa2"),
        (case(gpu(8, 9)), EVERY, "fa2"),
        (case(gpu(9)), EVERY, "fa4"),
        (case(gpu(9)), {"fa4": "not installed"}, "fa3"),
        (case(gpu(9)), {"fa4": "not installed", "fa3": "", "fa2": ""}, "varlen"),
        (case(gpu(9), max_length=8192), EVERY, "fa4"),
        (case(gpu(9), max_length=32768), EVERY, "fa3"),
        (case(gpu(9), NARROW), {"fa4": "not installed"}, "varlen"),
        (case(gpu(9), NARROW), EVERY, "fa4"),
        (case(gpu(8), NARROW), EVERY, "varlen"),
        (case(gpu(9), replace(LOCAL, window=None), LOCAL), {"fa4": "not installed"}, "varlen"),
        (case(gpu(9), LOCAL), EVERY, "fa4"),
        (case(gpu(8), LOCAL), EVERY, "varlen"),
        (case(gpu(10)), EVERY, "fa4"),
        (case(gpu(10), WIDE), EVERY, "fa4"),
        (case(gpu(10), replace(PLAIN, head_dim=192)), EVERY, "varlen"),
        (case(gpu(12)), EVERY, "fa2"),
        (case(gpu(17)), EVERY, "varlen"),
    ],
)
def test_the_fastest_known_backend_that_can_run_the_model_is_chosen(
    asked: Case, missing: Mapping[str, str], backend: str
) -> None:
    choice = choose(asked, missing)
    assert choice.backend == backend
    assert choice.reason
    assert choice.others.keys() == OBSTACLES.keys() - {backend}
    assert {name: choice.others[name] for name in missing if missing[name]} == {
        name: reason for name, reason in missing.items() if reason
    }


def test_every_backend_that_is_not_chosen_has_its_reason() -> None:
    others = choose(case(gpu(9), LOCAL), {"varlen": "torch is too old"}).others
    assert others == {
        "fa2": "FlashInfer's windows are to the left only, and this model's reach 64 tokens to both sides",
        "fa3": "FlashInfer's windows are to the left only, and this model's reach 64 tokens to both sides",
        "varlen": "torch is too old",
        "ragged": "it is for CPUs",
        "sdpa": "it could run the model, but fa4 comes first",
    }
    assert choose(case(gpu(9)), EVERY).others["varlen"] == "it could run the model, but fa4 comes first"


@pytest.mark.parametrize("backend", OBSTACLES)
def test_a_backend_asked_for_by_name_is_taken(backend: str) -> None:
    choice = choose(case(CPU if backend == "ragged" else gpu(9)), EVERY, backend)
    assert (choice.backend, choice.reason) == (backend, "it was asked for by name")


@pytest.mark.parametrize(
    ("asked", "backend", "match"),
    [
        (
            case(gpu(8)),
            "fa3",
            r"'fa3' cannot run this model here: its kernels are for compute capability 9\.0 \(Hopper\)",
        ),
        (case(gpu(9), NARROW), "fa2", "heads of 64, 128 and 256, not 32"),
        (case(gpu(8)), "fa4", r"need compute capability 9\.0, and this device has 8\.0"),
        (case(gpu(9), dtype=torch.float32), "varlen", "no float32: set dtype='bfloat16'"),
        (case(CPU), "fa2", "it is for CUDA devices"),
        (case(gpu(9)), "ragged", "it is for CPUs"),
        (case(CPU, replace(PLAIN, head_dim=80)), "ragged", "heads of multiples of 32, not 80"),
        (case(CPU, dtype=torch.float16), "ragged", "no float16"),
        (case(gpu(9), replace(PLAIN, has_position_bias=True)), "fa2", "no bias by position: set attention='sdpa'"),
        (case(gpu(7, 5)), "varlen", r"need compute capability 8\.0, and this device has 7\.5"),
    ],
)
def test_a_backend_asked_for_that_cannot_work_is_refused_with_the_reason(asked: Case, backend: str, match: str) -> None:
    with pytest.raises(UnsupportedModel, match=match):
        choose(asked, EVERY, backend)


def test_a_backend_asked_for_that_is_missing_is_refused_with_what_to_install() -> None:
    with pytest.raises(UnsupportedModel, match="'fa4' cannot run this model here: pip install it"):
        choose(case(gpu(9)), {"fa4": "pip install it"}, "fa4")


def test_an_unknown_backend_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match="attention='flash' is unknown: set one of auto, fa2, fa3, fa4, varlen, ragged, sdpa"
    ):
        choose(case(gpu(9)), EVERY, "flash")


def test_what_no_kernel_of_a_gpu_can_compute_says_why_it_is_slower() -> None:
    choice = choose(case(gpu(9), dtype=torch.float32), EVERY)
    assert choice.reason == "none of the faster ones can run the model here"
    others = {name: reason for name, reason in choice.others.items() if name != "ragged"}
    assert set(others.values()) == {"its kernels have no float32: set dtype='bfloat16', or attention='sdpa'"}


def test_a_choice_that_is_not_its_rows_first_says_what_it_is_the_first_of() -> None:
    choice = choose(case(gpu(8), NARROW), EVERY)
    assert choice.backend == "varlen"
    assert choice.reason.startswith("the first of fa2, varlen that can run it: ")
    assert choose(case(gpu(8)), EVERY).reason in {row.source for row in PUBLISHED}


def test_a_measured_table_takes_the_place_of_the_published_one() -> None:
    measured = (Row(capabilities=((9, 0), (9, 1)), order=("varlen", "fa3"), source="measured here"),)
    choice = choose(case(gpu(9)), EVERY, table=measured)
    assert (choice.backend, choice.reason) == ("varlen", "measured here")
    assert choice.others["fa4"] == "it could run the model, but varlen comes first"
    unordered = choose(case(gpu(9)), {"varlen": "", "fa3": ""}, table=measured)
    assert unordered.backend == "fa2"
    assert unordered.reason == "none of varlen, fa3 can run it, and the table does not order the others"
    assert choose(case(gpu(8)), EVERY, table=measured).reason == "the table has no row for it"


def test_rows_name_backends_that_there_are_and_say_where_they_are_from() -> None:
    for row in PUBLISHED:
        assert set(row.order) <= OBSTACLES.keys() - {"sdpa"}
        assert row.source


def test_what_is_not_installed_is_missing_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installed, "version", no_version)
    missing = installed.missing_backends("cuda")
    assert missing.keys() == {"fa2", "fa3", "fa4"}
    assert all("pip install" in reason for reason in missing.values())


def test_flashinfer_without_a_compiler_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda _: "1.0")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    missing = installed.missing_backends("cuda")
    assert missing.keys() == {"fa2", "fa3"}
    assert "nvcc" in missing["fa2"]
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/nvcc")
    assert not installed.missing_backends("cuda")


def test_an_old_torch_has_no_varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.11.1+cu128")
    assert re.search(r"torch 2\.11\.1\+cu128 is older than 2\.12", installed.missing_backends("cuda")["varlen"])


def test_a_cpu_lacks_its_kernels_alone_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not installed.missing_backends("cpu").keys() - {"ragged"}
    monkeypatch.setattr(installed, "kernels", lambda: Missing("there is no compiler"))
    assert installed.missing_backends("cpu") == {"ragged": "there is no compiler"}
