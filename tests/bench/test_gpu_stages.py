"""The stages of gpu_check.py, run on the CPU against a CUDA runtime that checks each call; and they find faults."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from gpu import device as gpu_device
from gpu.attention import check_attention
from gpu.backend import CpuBackend
from gpu.batches import tensors
from gpu.bench import Bench
from gpu.blueprint import MINILM, MODELS, QWEN3, QWEN3_BOTH_SIDES, XLM_R_LARGE, Blueprint
from gpu.bulk import run_bulk
from gpu.captures import measure_captures
from gpu.deadline import Deadline
from gpu.finding import Barrier, Capture, Check, MemoryUse, Stint, Timing
from gpu.host import measure_host
from gpu.leaks import check_leaks
from gpu.memory import watch_memory
from gpu.races import check_races
from gpu.rows import check_rows
from gpu.steps import time_steps
from headrace_engine.config import EngineConfig
from headrace_engine.cuda.graph import CudaCaptures
from headrace_engine.cuda.runner import CudaRunner
from headrace_engine.graphs import GraphConfig
from headrace_engine.lazy import LazyTensor
from headrace_engine.static_batch import StaticBatch

from ..engine.fake_cuda import CPU, Runtime
from .fake_gpu import SIZES, Memory, bench, installed

SMALL = [blueprint.small() for blueprint in MODELS]
SHORT = replace(QWEN3.small(), max_length=24)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> tuple[Runtime, Memory]:
    return installed(monkeypatch)


@pytest.fixture
def runtime(device: tuple[Runtime, Memory]) -> Runtime:
    return device[0]


@pytest.fixture
def few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu.memory._CONFIG", EngineConfig(graphs=GraphConfig(defer_s=0, max_graphs=8)))


@pytest.fixture
def no_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    def capture(*_: Any) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(CudaCaptures, "capture", capture)


def long() -> Deadline:
    return Deadline(1000)


def checks(found: Iterator[Any]) -> dict[str, Check]:
    return {check.what: check for check in found if isinstance(check, Check)}


@pytest.mark.parametrize("blueprint", [*SMALL, QWEN3_BOTH_SIDES.small()], ids=lambda blueprint: blueprint.name)
def test_attention_is_compared_with_its_definition(blueprint: Blueprint, runtime: Runtime) -> None:
    (check,) = check_attention(bench(runtime), blueprint, long())
    assert check.outcome == "passed", check
    assert check.far is not None
    assert 0 < check.far < 0.03


@pytest.mark.parametrize("blueprint", SMALL, ids=lambda blueprint: blueprint.name)
def test_rows_agree_in_every_way(blueprint: Blueprint, runtime: Runtime) -> None:
    found = checks(check_rows(bench(runtime), blueprint, long()))
    assert [check.outcome for check in found.values()] == ["passed"] * 3, found
    assert sum(call.endswith("replay") for call in runtime.calls) > 15


def test_a_graph_that_reads_old_tokens_is_found(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticBatch, "fill", lambda *_: None)
    found = checks(check_rows(bench(runtime), QWEN3.small(), long()))
    assert found["eager = float32"].outcome == "passed"
    assert found["replay = float32"].outcome == "failed"
    assert found["replay = eager, padded alike"].outcome == "failed"


@pytest.mark.usefixtures("no_captures")
def test_a_capture_that_fails_is_noted_with_its_reason(runtime: Runtime) -> None:
    found = checks(check_rows(bench(runtime), MINILM.small(), long()))
    assert found["replay = float32"].outcome == "skipped"
    assert "no graph for 1 × 1," in found["replay = float32"].detail
    assert "not permitted" in found["the log is quiet"].detail


def test_a_batch_that_raises_fails_and_the_others_run(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CudaRunner.run

    def fragile(self: CudaRunner, batch: Any) -> LazyTensor:
        if batch.num_sequences == 300:
            raise RuntimeError("out of memory")
        return run(self, batch)

    monkeypatch.setattr(CudaRunner, "run", fragile)
    check = checks(check_rows(bench(runtime), MINILM.small(), long()))["eager = float32"]
    assert check.outcome == "failed"
    assert "300 × 1: RuntimeError: out of memory" in check.detail


def test_without_time_a_stage_says_what_it_left_out(runtime: Runtime) -> None:
    found = checks(check_rows(bench(runtime), MINILM.small(), Deadline(0)))
    assert found["eager = float32"].outcome == "skipped"
    assert "no time for 1 × 1, 1 × 64" in found["eager = float32"].detail


@pytest.mark.parametrize("blueprint", SMALL, ids=lambda blueprint: blueprint.name)
def test_nothing_leaks_where_nothing_does(blueprint: Blueprint, runtime: Runtime) -> None:
    found = checks(check_leaks(bench(runtime), blueprint, long()))
    assert found["NaN that was there leaves no trace"].outcome == "passed", found
    assert found["NaN in a text spoils no neighbour"].detail == "it spoils 0 of 4 neighbours"


def test_a_buffer_that_keeps_nan_is_found(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    run, kept = CudaRunner.run, [0.0]

    def leaky(self: CudaRunner, batch: Any) -> LazyTensor:
        rows = run(self, batch).numpy()
        before, kept[0] = kept[0], float(rows[0, 0])
        return LazyTensor(torch.from_numpy(rows + 0 * before))

    monkeypatch.setattr(CudaRunner, "run", leaky)
    check = checks(check_leaks(bench(runtime), QWEN3.small(), long()))["NaN that was there leaves no trace"]
    assert check.outcome == "failed"
    assert check.far is None  # infinitely far, which JSON does not know


@pytest.mark.parametrize("blueprint", SMALL, ids=lambda blueprint: blueprint.name)
def test_batches_in_flight_give_the_rows_they_give_alone(blueprint: Blueprint, runtime: Runtime) -> None:
    (check,) = check_races(bench(runtime), blueprint, long())
    assert check.outcome == "passed", check
    assert "40 of 40 runs" in check.detail
    assert int(check.detail.split()[-2]) > 10  # replays


def test_a_runner_that_reads_its_batch_too_late_is_found(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CudaRunner.run

    class Late:
        def __init__(self, batch: Any, runner: CudaRunner) -> None:
            copies: dict[str, Any] = {name: tensor.clone() for name, tensor in tensors(batch).items()}
            host: Any = batch.host_cu_seqlens.copy()
            self.runner, self.batch, self.others = runner, batch, replace(batch, **copies, host_cu_seqlens=host)

        def numpy(self) -> Any:
            return run(self.runner, replace(self.others, token_ids=self.batch.token_ids)).numpy()

    monkeypatch.setattr(CudaRunner, "run", lambda self, batch: Late(batch, self))
    (check,) = check_races(bench(runtime), QWEN3.small(), long())
    assert check.outcome == "failed"


def test_captures_are_timed_largest_first(runtime: Runtime) -> None:
    found = list(measure_captures(bench(runtime), XLM_R_LARGE.small(), long()))
    assert all(isinstance(capture, Capture) and capture.capture_ms > 0 for capture in found)
    assert [capture.tokens for capture in found if isinstance(capture, Capture)][:2] == [2048, 1024]


def test_parts_of_a_step_are_timed(runtime: Runtime) -> None:
    found = list(measure_host(bench(runtime), QWEN3.small(), long()))
    assert len(found) == 4
    for cost in found:
        assert cost.pack_ms > 0
        assert cost.pad_ms is not None
        assert cost.upload_ms is not None


def test_steps_are_timed_eagerly_and_replayed(runtime: Runtime) -> None:
    found = [timing for timing in time_steps(bench(runtime), QWEN3.small(), long()) if isinstance(timing, Timing)]
    assert [(timing.batch, timing.is_graph) for timing in found] == [
        ("1 × 32", False),
        ("1 × 32", True),
        ("100 × 32", False),
        ("100 × 32", True),
    ]
    assert all(timing.step.num >= 1 and timing.launch_ms > 0 and timing.flop > 0 for timing in found)


@pytest.mark.usefixtures("no_captures")
def test_what_was_not_replayed_is_no_time_of_a_replay(runtime: Runtime) -> None:
    found = list(time_steps(bench(runtime), MINILM.small(), long()))
    assert not [timing for timing in found if isinstance(timing, Timing) and timing.is_graph]
    assert "the capture failed" in checks(iter(found))["times with graphs"].detail


@pytest.mark.usefixtures("few_graphs")
def test_memory_that_stays_flat_passes(runtime: Runtime) -> None:
    use, check = watch_memory(bench(runtime), SHORT, long())
    assert isinstance(use, MemoryUse)
    assert (use.shapes, len(use.samples)) == (200, 4)
    assert use.evictions > 0
    assert isinstance(check, Check)
    assert check.outcome == "passed"


@pytest.mark.usefixtures("few_graphs")
def test_memory_that_grows_is_found(device: tuple[Runtime, Memory], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, memory = device
    release = runtime.say

    def leaky(call: str) -> None:
        memory.free -= 16 * 2**20 * (call == "reset")
        release(call)

    monkeypatch.setattr(runtime, "say", leaky)
    memory.free = memory.total = 2**40
    _, check = watch_memory(bench(runtime), SHORT, long())
    assert isinstance(check, Check)
    assert check.outcome == "failed"


def test_a_few_shapes_prove_nothing_about_memory(runtime: Runtime) -> None:
    found = checks(watch_memory(bench(runtime, replace(SIZES, shapes=50)), SHORT, long()))
    assert found["memory stays flat"].outcome == "skipped"


def test_a_bulk_waits_for_others_before_each_stint(runtime: Runtime) -> None:
    waits: list[str] = []
    patient = replace(bench(runtime), wait=lambda: waits.append("waited"))
    found = [(type(message), len(waits)) for message in run_bulk(patient, QWEN3.small(), long())]
    assert found == [(Barrier, 0), (Stint, 1), (Barrier, 1), (Stint, 2)]


def test_a_device_without_graphs_skips_what_needs_them() -> None:
    on_cpu = Bench(CpuBackend("sdpa", CPU, torch.bfloat16), SIZES, lambda: None)
    for stage in (measure_captures, watch_memory):
        (check,) = stage(on_cpu, QWEN3.small(), long())
        assert isinstance(check, Check)
        assert check.outcome == "skipped"
    found = checks(check_rows(on_cpu, QWEN3.small(), long()))
    assert [check.outcome for check in found.values()] == ["passed", "skipped"]


def test_poison_is_asked_of_torch_as_it_takes_it(device: tuple[Runtime, Memory]) -> None:
    gpu_device.poison(CPU)
    assert device[1].calls == ["empty_cache", "empty_cache"]
    assert gpu_device.memory(CPU) == gpu_device.Memory(0, 192 * 2**20)
    assert gpu_device.total_bytes(CPU) == 256 * 2**20
