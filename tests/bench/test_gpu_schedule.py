"""The schedule runs what it can with processes that crash, hang, never come up or are of no use (fake_child.py)."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from gpu.bench import CPU
from gpu.blueprint import QWEN3
from gpu.crew import Crew
from gpu.finding import Bulk, Check, Finding, Where
from gpu.plan import RULES, Job, Rules
from gpu.schedule import Extent, Schedule

CHILD = str(Path(__file__).with_name("fake_child.py"))
BUDGET_S = 60
STAGES = ("attention", "rows", "leaks", "steps", "host")


def run(
    backends: Sequence[str], stages: Sequence[str] = STAGES, budget_s: float = BUDGET_S
) -> tuple[list[Finding], list[Job]]:
    """What was found, and what was begun."""
    found: list[Finding] = []
    begun: list[Job] = []
    extent = Extent(backends=backends, stages=frozenset(stages), num_processes=3, sizes=CPU, bulk=QWEN3.small())
    before = set(psutil.Process().children(recursive=True))  # what other tests share may be among them
    with TemporaryDirectory() as folder:
        log = Path(folder) / "new" / "log"
        with Crew([CHILD], log) as crew:
            Schedule(crew, extent, budget_s, found.append, begun.append).run()
            assert set(psutil.Process().children()) - before
        assert all(f"== {backend}\n" in log.read_text() for backend in backends)
    assert not set(psutil.Process().children(recursive=True)) - before
    return found, begun


def passed(found: Sequence[Finding], backend: str) -> list[str]:
    """The stages that ran."""
    return [
        check.where.stage
        for check in found
        if isinstance(check, Check) and check.outcome == "passed" and check.where.backend == backend
    ]


def bad(found: Sequence[Finding]) -> list[Check]:
    return [check for check in found if isinstance(check, Check) and check.outcome != "passed"]


def test_every_stage_of_every_backend_runs_once() -> None:
    found, begun = run(["good", "better"])
    assert not bad(found)
    assert passed(found, "good") == list(STAGES)
    assert passed(found, "better") == list(STAGES)
    assert len(begun) == len(set(begun)) == 10


def test_a_process_that_crashes_is_named_and_started_again_for_what_is_left() -> None:
    found, _ = run(["crashing", "good"])
    assert [(check.where, check.outcome) for check in bad(found)] == [(Where("rows", "crashing"), "failed")]
    assert bad(found)[0].detail == (
        "its process ended with SIGSEGV; it printed last: CUDA error: an illegal memory access"
    )
    assert passed(found, "crashing") == ["attention", "leaks", "steps", "host"]
    assert passed(found, "good") == list(STAGES)


def test_a_process_that_hangs_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "rows", Rules(0.2))
    monkeypatch.setattr("gpu.schedule._GRACE_S", 0.2)
    found, _ = run(["silent"])
    (check,) = bad(found)
    assert (check.where, check.outcome) == (Where("rows", "silent"), "failed")
    assert check.detail.startswith("no answer in ")
    assert passed(found, "silent") == ["attention", "leaks", "steps", "host"]


def test_a_process_that_still_compiles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu.schedule._COMPILING", 0.02)
    found, _ = run(["slow", "good"])
    (check,) = bad(found)
    assert (check.where, check.outcome) == (Where("prepare", "slow"), "skipped")
    assert passed(found, "good") == list(STAGES)


def test_a_process_that_cannot_be_prepared_fails_once() -> None:
    found, _ = run(["broken", "good"])
    (check,) = bad(found)
    assert (check.where, check.outcome) == (Where("prepare", "broken"), "failed")
    assert check.detail == "its process ended with 1; it printed last: ImportError: no kernels here"
    assert passed(found, "good") == list(STAGES)


def test_a_backend_that_can_run_no_model_gets_no_jobs() -> None:
    found, begun = run(["useless", "good"])
    assert not bad(found)
    assert {job.backend for job in begun} == {"good"}


def test_times_are_taken_only_once_nobody_compiles() -> None:
    _, begun = run(["good", "late"])
    first_timed = begun.index(Job("steps", "good"))
    assert begun.index(Job("attention", "good")) < begun.index(Job("attention", "late")) < first_timed


def test_a_bulk_adds_up_what_one_and_then_all_did() -> None:
    found, _ = run(["good"], ["bulk"])
    alone, together = (bulk for bulk in found if isinstance(bulk, Bulk))
    assert (alone.processes, together.processes) == (1, 3)
    assert alone.batches_per_s == pytest.approx(3)
    assert 4 < together.batches_per_s <= 9
    assert alone.texts_per_s == alone.batches_per_s * CPU.bulk[0]


def test_what_there_was_no_time_for_is_named() -> None:
    found, begun = run(["good"], budget_s=1)
    assert not begun
    assert [check.outcome for check in bad(found)] == ["skipped"] * len(STAGES)
    assert {check.where.stage for check in bad(found)} == set(STAGES)
