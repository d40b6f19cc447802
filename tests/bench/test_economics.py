"""The message path around an engine that answers at once: all is answered, and every process is accounted for."""

import os
from dataclasses import replace
from pathlib import Path

import economics_run
import numpy as np
import psutil
import pytest
from contenders import DTYPES
from economics import economics, engine_cpu, message_path, meter, processes
from economics.client import Plan
from economics.engine_cpu import Shape
from economics.message_path import Case
from economics.meter import Reading
from economics.null_engine import NullEngine
from headrace_engine import Engine, pack
from models import prepare


def children() -> set[psutil.Process]:
    """Those of this process; a fleet that other tests share may be among them."""
    return set(psutil.Process().children())


@pytest.fixture(scope="module")
def model(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(prepare(str(minilm.checkpoint.path), tmp_path_factory.mktemp("models"), 512).embedder)


def test_the_null_engine_gives_one_finite_row_for_each_sequence(model: str) -> None:
    engine = NullEngine.load(model)
    rows = engine.step(pack([np.full(length, 7, np.uint32) for length in (3, 512, 1)])).numpy()
    assert rows.shape == (3, engine.checkpoint.dim)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)


async def test_every_case_is_answered_and_costs_all_three_processes(model: str) -> None:
    cases = tuple(Case.all((1, 3), 0.05))
    floor, *found = await message_path.measure(model, cases, [1e-3] * len(cases))
    assert floor.case == "nats-py alone"
    assert floor.call is not None
    assert floor.call.min_ms > 0
    assert [(line.case, line.clients) for line in found[:2]] == [("one query", 1), ("one query", 3)]
    for case, line in zip(cases, found, strict=True):
        assert set(line.cpu_us_per_chunk) == {"client", "broker", "worker"}
        assert min(line.chunks_per_s, *line.cpu_us_per_chunk.values()) > 0
        assert line.tokens_per_s == pytest.approx(line.chunks_per_s * line.tokens)
        assert line.cpu_share == pytest.approx(sum(line.cpu_us_per_chunk.values()) / 1e6 / (1e-3 * line.tokens))
        assert (line.call is None) == (case.load.priority == "batch")


def test_bulk_cases_fill_their_chunks_and_their_steps() -> None:
    bulk = [case for case in Case.all((1,), 1) if case.load.chunks > 1]
    assert [case.load.sequences for case in bulk] == [1, 25]
    for case in bulk:
        call = case.load.call()
        assert sum(map(len, call.sequences)) == case.load.chunks * case.load.tokens
        assert message_path.CHUNK_TOKENS - case.load.length < case.load.tokens <= message_path.CHUNK_TOKENS
        assert case.step == Shape(4 * case.load.sequences, case.load.length)


async def test_the_engine_alone_costs_processor_time_for_each_shape(model: str) -> None:
    plan = engine_cpu.Plan(model=model, dtype="float32", threads=1, shapes=(Shape(1, 8), Shape(2, 64)), seconds=0.01)
    found = await engine_cpu.measure(plan)
    assert len(found) == 2
    assert min(found) > 0


async def test_a_process_that_fails_is_told_by_name() -> None:
    nobody = Plan(url="nats://127.0.0.1:1", pids={}, loads=())
    with pytest.raises(processes.ProcessFailed, match=r"economics\.client ended with exit code 1"):
        await processes.ask("economics.client", nobody, list[object])


def test_a_null_worker_that_cannot_start_is_told_and_leaves_no_process(model: str) -> None:
    before = children()
    with (
        pytest.raises(processes.ProcessFailed, match="before it was ready"),
        processes.null_worker(model, "nats://127.0.0.1:1"),
    ):
        pytest.fail("it has no broker")
    assert children() == before


def test_readings_add_up(tmp_path: Path) -> None:
    before = Reading.of({"both": (os.getpid(), os.getppid()), "one": (os.getpid(),)})
    used = replace(before, at_s=before.at_s + 2, cpu_s={"both": before.cpu_s["both"] + 4, "one": before.cpu_s["one"]})
    used = used.since(before)
    assert before.cpu_s["both"] >= before.cpu_s["one"] > 0
    assert used.at_s == pytest.approx(2)
    assert used.us_per(1000)["both"] == pytest.approx(4000)
    assert used.plus(used).cpu_s["both"] == pytest.approx(8)
    assert meter.memory_mib(os.getpid()) > 1
    (tmp_path / "file").write_bytes(bytes(2**20))
    assert meter.disk_mib(tmp_path) >= 1


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], {"clients", "null", "depths"}),
        (["--path"], {"clients"}),
        (["--growth", "--quick"], {"null"}),
        (["--backlog", "30,20,30"], {"depths"}),
    ],
)
def test_flags_choose_parts(arguments: list[str], parts: set[str]) -> None:
    amount = economics_run.Flags.parse(arguments).amount
    assert {name for name in ("clients", "null", "depths") if getattr(amount, name)} == parts
    if "--backlog" in arguments:
        assert amount.depths == (20, 30)


@pytest.mark.parametrize("dtype", ["auto", *DTYPES])
def test_the_engine_may_be_told_any_dtype_that_ours_compute_in(dtype: str) -> None:
    assert economics_run.Flags.parse(["--dtype", dtype]).dtype == dtype


def test_a_quick_run_does_no_more_of_anything() -> None:
    full, quick = economics.FULL, economics.QUICK
    assert quick.path_s < full.path_s
    assert set(quick.depths) < set(full.depths)
    assert len(quick.real) <= len(full.real)
