"""The parts of gpu_check.py that compute without a device: floors, models, batches, distances, messages, tables."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gpu import older_torch
from gpu.batches import draw, ladder, moved, poisoned, shapes, tensors, text
from gpu.blueprint import MINILM, MODELS, QWEN3, QWEN3_BOTH_SIDES, XLM_R_LARGE, Blueprint
from gpu.complaints import in_a_line
from gpu.deadline import Deadline
from gpu.facts import Facts, ranking
from gpu.finding import (
    Barrier,
    Bulk,
    Capture,
    Check,
    Done,
    Finding,
    HostCost,
    MemoryUse,
    Message,
    Ready,
    Stint,
    Timing,
    Where,
    from_line,
    to_line,
)
from gpu.floor import Matrices, Rates, Work
from gpu.likeness import REFERENCE, SAME, Tally, distance
from gpu.model import Built
from gpu.plan import Job, plan
from gpu.rates import measure_rates
from gpu.report import report
from gpu.result import Result
from headrace_engine.attention import AttentionShape
from headrace_engine.attention.varlen import VarlenBackend
from rich.console import Console
from timing import Spread

CPU = torch.device("cpu")
H200 = Rates(flop_per_s=788e12, bytes_per_s=4.3e12)
WHERE = Where("rows", "fa3", "MiniLM")
SPREAD = Spread(num=5, min_ms=1, p50_ms=2, p90_ms=3, p99_ms=4)
FINDINGS: tuple[Finding, ...] = (
    Check(WHERE, "eager = float32", "passed", "all near", 1e-4),
    Check(WHERE, "replay = float32", "failed", "3 of 12"),
    Timing(
        where=WHERE, batch="1 × 9", tokens=9, is_graph=True, step=SPREAD, launch_ms=0.1, flop=788e9, num_bytes=4.3e6
    ),
    Capture(where=WHERE, tokens=64, sequences=2, capture_ms=9, pool_bytes=2**20, driver_bytes=2**21),
    HostCost(where=WHERE, batch="1 × 9", pack_ms=0.1, pad_ms=None, upload_ms=0.2),
    MemoryUse(where=WHERE, shapes=50, captures=40, evictions=9, samples=((50, 2**30, 2**31),)),
    Bulk(
        where=WHERE,
        batch="100 × 512",
        processes=4,
        is_graph=False,
        batches_per_s=500,
        texts_per_s=50_000,
        tokens_per_s=25_600_000,
        flop=788e9,
        num_bytes=1,
    ),
)
MESSAGES: tuple[Message, ...] = (
    *FINDINGS,
    Ready(("MiniLM",)),
    Barrier(),
    Stint(is_graph=True, began_s=1, ended_s=2, batches=3),
    Done(),
)


def matrices(blueprint: Blueprint) -> Matrices:
    return Matrices.of(blueprint.config)


@pytest.mark.parametrize(
    ("blueprint", "millions"), [(QWEN3, 440.4), (XLM_R_LARGE, 302.0), (MINILM, 10.6)], ids=lambda value: str(value)[:9]
)
def test_weights_are_counted_without_embeddings(blueprint: Blueprint, millions: float) -> None:
    assert matrices(blueprint).num_weights / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.parametrize(("length", "gflop"), [(128, 0.91), (512, 1.00), (4096, 1.82)])
def test_a_token_of_qwen3_takes_more_in_a_longer_text(length: int, gflop: float) -> None:
    both_sides, causal = matrices(QWEN3_BOTH_SIDES).work((length,)), matrices(QWEN3).work((length,))
    assert both_sides.flop / length / 1e9 == pytest.approx(gflop, abs=0.005)
    # A causal token sees half of the others.
    dense = 2 * matrices(QWEN3).num_weights * length
    assert (causal.flop - dense) / (both_sides.flop - dense) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("length", "floor_ms"), [(128, 0.205), (512, 0.65), (4096, 9.5)])
def test_one_text_is_bound_by_weights_then_by_operations(length: int, floor_ms: float) -> None:
    assert matrices(QWEN3_BOTH_SIDES).work((length,)).floor_ms(H200) == pytest.approx(floor_ms, rel=0.01)


@pytest.mark.parametrize(("num", "floor_ms"), [(5, 2.1), (25, 10.6), (50, 21.2)])
def test_scoring_is_bound_by_operations(num: int, floor_ms: float) -> None:
    assert matrices(XLM_R_LARGE).work((512,) * num).floor_ms(H200) == pytest.approx(floor_ms, rel=0.015)


def test_the_engine_takes_its_tensors_from_random_ones_and_float32_has_the_same_values() -> None:
    for blueprint in MODELS:
        half, full = (Built.by(blueprint.small(), dtype, CPU) for dtype in (torch.bfloat16, torch.float32))
        batch = draw((3, 9), half.limits, seed=0)
        assert half.limits.vocab_size == 1000
        assert half.model.shapes == full.model.shapes
        assert torch.equal(_embedding(half, batch.token_ids).float(), _embedding(full, batch.token_ids))


def _embedding(built: Built, ids: torch.Tensor) -> torch.Tensor:
    encoder = built.model.encoder
    table = getattr(encoder, "tokens", None)
    return (encoder.embeddings.tokens if table is None else table)[ids]  # type: ignore[attr-defined,no-any-return]


def test_the_big_models_have_the_sizes_of_their_names() -> None:
    for blueprint, millions in ((MINILM, 22.6), (XLM_R_LARGE, 558), (QWEN3, 596)):
        num_embeddings = blueprint.config["vocab_size"] * blueprint.config["hidden_size"]
        assert (matrices(blueprint).num_weights + num_embeddings) / 1e6 == pytest.approx(millions, rel=0.02)


def test_the_ladder_has_every_rung_within_the_limits() -> None:
    for blueprint in MODELS:
        rungs = ladder(blueprint.max_length)
        assert max(map(max, rungs)) == blueprint.max_length
        assert {(1,), (64,), (65,), (blueprint.max_length,)} <= set(rungs)
    assert (4096,) in ladder(QWEN3.max_length)


def test_random_shapes_are_within_the_limits_and_the_same_each_time() -> None:
    drawn = shapes(200, 100, 8, seed=1)
    assert drawn == shapes(200, 100, 8, seed=1)
    assert min(map(min, drawn)) == 1
    assert 80 < max(map(max, drawn)) <= 100
    assert {len(lengths) for lengths in drawn} == set(range(1, 9))


def test_drawn_batches_hold_no_poison_and_poisoned_ones_nothing_else() -> None:
    limits = Built.by(MINILM.small(), torch.float32, CPU).limits
    batch = draw((50,) * 40, limits, seed=0)
    assert int(batch.token_ids.max()) == 998
    assert batch.segment_ids is not None
    assert batch.skips is not None
    assert set(poisoned((5, 6), limits).token_ids.tolist()) == {999}
    assert (poisoned((5, 6), limits, num_good=1).token_ids == 999).sum() == 6


def test_a_batch_moves_with_all_its_tensors() -> None:
    limits = Built.by(MINILM.small(), torch.float32, CPU).limits
    there = moved(draw((5, 6), limits, seed=0), torch.device("meta"))
    assert {tensor.device.type for tensor in tensors(there).values()} == {"meta"}
    assert set(tensors(there)) >= {"token_ids", "positions", "cu_seqlens", "segment_ids"}


def test_batches_have_short_names() -> None:
    assert [text(lengths) for lengths in ((7,), (5, 5), (1, 9, 3))] == ["1 × 7", "2 × 5", "3 × 1…9"]


def test_distance_is_one_minus_the_least_cosine_and_infinite_for_nan() -> None:
    rows = np.array([[1, 0], [0, 2]], np.float32)
    assert distance(rows, rows) == 0
    assert distance(np.array([[1, 0], [3, 4]], np.float32), rows) == pytest.approx(1 - 0.8)
    assert distance(np.array([[1, np.nan], [0, 1]], np.float32), rows) == math.inf
    assert distance(np.zeros((2, 2), np.float32), rows) == math.inf
    assert distance(rows[:1], rows) == math.inf
    assert distance(np.array([[0.5]], np.float32), np.array([[0.25]], np.float32)) == 0.25


def test_a_tally_names_the_farthest_and_the_bad_ones() -> None:
    tally = Tally("this = that", REFERENCE)
    one, near = np.array([[1, 0]], np.float32), np.array([[1, 1e-3]], np.float32)
    tally.compare("first", one, one)
    tally.compare("second", near, one)
    check = tally.check(WHERE)
    assert check.outcome == "passed"
    assert check.far == pytest.approx(5e-7, rel=0.01)
    assert check.detail == "2 batches, the farthest 5.0e-07 (second), 1 equal to the bit"
    tally.compare("third", -one, one)
    tally.fail("fourth", RuntimeError("no memory"))
    check = tally.check(WHERE, "in a hurry")
    assert check.outcome == "failed"
    assert check.detail == "2 of 4: third by 2.0e+00, fourth: RuntimeError: no memory; in a hurry"


def test_an_empty_tally_has_proved_nothing() -> None:
    assert Tally("this = that", SAME).check(WHERE).outcome == "skipped"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_way_between_processes(message: Message) -> None:
    assert from_line(to_line(message)) == message
    assert "\n" not in to_line(message)


@pytest.mark.parametrize("line", ["", "ninja: no work to do", "[1]", "3", '{"kind": "Unknown"}', '{"kind": "Ready"}'])
def test_what_a_compiler_prints_is_no_message(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_line(line)


def test_an_error_is_a_line_and_its_traceback_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="xx") as caught:
        raise ValueError("x" * 5000)
    assert 300 < len(in_a_line(caught.value)) < 310
    assert "test_gpu_parts.py" in capsys.readouterr().err


def test_a_deadline_passes() -> None:
    now = [10.0]
    deadline = Deadline(5, lambda: now[0])
    assert (deadline.left_s, deadline.is_over) == (5, False)
    now[0] = 16
    assert (deadline.left_s, deadline.is_over) == (0, True)


def test_all_backends_are_right_before_any_is_timed() -> None:
    jobs = list(plan(["fa4", "varlen", "sdpa"]))
    assert len(jobs) == len(set(jobs))
    last_right = max(index for index, job in enumerate(jobs) if job.stage in {"rows", "races"})
    assert jobs.index(Job("steps", "fa4")) > last_right
    assert [job.backend for job in jobs if job.stage == "bulk"] == ["fa4"]
    assert jobs.index(Job("memory", "fa4")) < jobs.index(Job("steps", "varlen"))
    assert list(plan([])) == []


def test_a_cpu_has_one_backend_and_says_why_no_other() -> None:
    found, absent = ranking(CPU)
    assert found == ["sdpa"]
    assert set(absent) == {"fa2", "fa3", "fa4", "varlen", "ragged"}
    assert absent.pop("ragged") == "it is for CPUs"  # and no stand-in for a GPU
    assert set(absent.values()) == {"it is for CUDA devices"}


def test_rates_of_a_cpu_are_some_rates() -> None:
    rates = measure_rates(CPU)
    assert rates.flop_per_s > 1e8
    assert rates.bytes_per_s > 1e8


def test_the_stand_in_calls_the_operator_as_torch_takes_it() -> None:
    shape = AttentionShape(num_heads=4, num_kv_heads=2, head_dim=64, causal=True)
    backend = VarlenBackend([shape], torch.bfloat16, older_torch.attend)
    limits = Built.by(QWEN3.small(), torch.float32, CPU).limits
    batch = moved(draw((3, 5), limits, seed=0), torch.device("meta"))
    query, key = (torch.empty(8, heads, 64, dtype=torch.bfloat16, device="meta") for heads in (4, 2))
    assert backend.plan(batch).run(query, key, key, shape).shape == query.shape


@pytest.fixture
def result() -> Result:
    result = Result(date="2026-11-29", facts=Facts.here(CPU), rates=H200, budget_s=210, is_small=False)
    for finding in FINDINGS:
        result.add(finding)
    return result


def test_a_result_puts_the_floor_beside_each_time(result: Result) -> None:
    (timing,), (bulk,) = result.all(Timing), result.all(Bulk)
    assert timing.floor_ms == pytest.approx(1)
    assert bulk.share == pytest.approx(0.5)
    assert Work(788e12, 0).floor_ms(H200) == pytest.approx(1000)


def test_a_result_without_rates_has_no_floors(result: Result) -> None:
    bare = replace(result, rates=None, findings=[])
    for finding in FINDINGS:
        bare.add(finding)
    assert tuple(bare.findings) == FINDINGS
    assert "–" in _printed(bare)


def test_the_json_has_everything(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "new" / "gpu.json")
    result.save(tmp_path / "new" / "gpu.json")  # over itself
    found = json.loads((tmp_path / "new" / "gpu.json").read_text("utf-8"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["gpu.json"]
    assert found["has_failed"] is True
    assert found["rates"] == {"flop_per_s": 788e12, "bytes_per_s": 4.3e12}
    assert [finding["kind"] for finding in found["findings"]] == [type(finding).__name__ for finding in FINDINGS]
    assert found["facts"]["packages"]["torch"]


def test_the_tables_show_each_kind_and_the_failures_last(result: Result) -> None:
    printed = _printed(result)
    for title in ("Times of steps", "Bulk", "Graphs", "Host", "Memory", "Checks"):
        assert f"\n{title}" in printed
    assert "788.0 TFLOP/s" in printed
    assert printed.index("\nChecks") < printed.index("rows, fa3, MiniLM: replay = float32: 3 of 12")
    assert printed.rstrip().splitlines()[-1].startswith("1 checks passed, 1 failed, 0 did not run")


def _printed(result: Result) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        for part in report(result):
            console.print(part)
    return captured.get()
