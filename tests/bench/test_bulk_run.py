"""The command for bulk jobs: flags choose, verdicts fall, and a quick run of all parts meets real processes."""

import json
import sys
from collections import Counter
from pathlib import Path

import bulk_run
import numpy as np
import psutil
import pytest
from bulk import chaos, real
from bulk.chaos import Run
from bulk.checker import Checked
from bulk.ground import Amount, Ground
from bulk.reindex import NotDone, Reindex
from online.cores import Cores
from online.finding import Finding

BENCH = Path(bulk_run.__file__).parent
WHOLE = Checked(
    expected=9, bad=1, rows=9, missing=0, doubled=0, strange=0, wrong=0, farthest=0, unreported=0, overreported=0
)


def test_flags_choose_parts_in_the_order_of_the_command_and_the_amount_of_work() -> None:
    flags = bulk_run.Flags.parse(["--parts", "chaos", "real", "--seeds", "3", "--documents", "50"])
    assert flags.parts == ("real", "chaos")
    assert (flags.amount.seeds, flags.amount.real, flags.amount.chaos) == (3, 50, 50)
    assert bulk_run.Flags.parse([]).parts == tuple(bulk_run.PARTS)
    assert bulk_run.Flags.parse(["--quick"]).amount == Amount.quick()
    assert bulk_run.Flags.parse(["--job-options=--window-rows 500"]).options == ("--window-rows", "500")


@pytest.mark.parametrize("wrong", [["--parts", "nothing"], ["--seeds", "0"], ["--documents", "many"]])
def test_a_wrong_flag_ends_the_program(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bulk_run.Flags.parse(wrong)
    assert wrong[0] in capsys.readouterr().err


def run(checked: Checked | None = WHOLE, verified: int | None = 0, broke: str = "") -> Run:
    return Run(
        seed=1,
        checked=checked,
        verified=verified,
        done=Counter({"disk full": 2}),
        exits=Counter({0: 1, -9: 2}),
        seconds=5,
        broke=broke,
    )


def test_runs_that_are_whole_hold_all_verdicts() -> None:
    found = chaos.finding([run(), run()])
    assert not found.fails
    figures = {figure.what: figure.value for figure in found.figures}
    assert (figures["disk full"], figures["exit code -9"], figures["worker killed"]) == (4, 4, 0)


@pytest.mark.parametrize("bad", [run(verified=1), run(None, None, "it was not done"), run(None)])
def test_one_run_that_is_not_whole_fails_and_is_named(bad: Run) -> None:
    found = chaos.finding([run(), bad])
    assert found.fails
    assert found.notes[0].startswith("seed 1:")


def ended(tokens: int, seconds: float) -> Reindex:
    job = Reindex()
    job.lines.append({"rows_done": 10, "tokens_done": tokens, "elapsed_s": seconds})
    job.hold = {"longest_hold_ms": 5.0}
    return job


def test_a_job_is_held_against_the_engine_just_before_and_just_after_it() -> None:
    jobs = [ended(960, 10), ended(480, 10)]
    found = real.finding(jobs, WHOLE, [100, 100, 0.1], np.zeros(5))
    shares = {verdict.what: verdict for verdict in found.verdicts}
    share = shares["tokens a second of the job, as a share of the engine's own, median"]
    assert share.found == pytest.approx((0.96 + 48 / 50.05) / 2)
    assert share.holds
    assert real.finding(jobs, WHOLE, [100, 100, 100], np.array([0, np.inf])).fails


async def test_a_part_that_breaks_is_told_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def good(_: Ground) -> Finding:
        return Finding(part="real", what="is done")

    async def bad(_: Ground) -> Finding:
        raise ExceptionGroup("of tasks", [NotDone("headrace reindex ended with [1]")])

    monkeypatch.setattr(bulk_run, "PARTS", {"million": bad, "real": good})
    ground = Ground(
        model="",
        work=tmp_path,
        cores=Cores((0,), (0,)),
        amount=Amount.quick(),
        first_seed=0,
        options=(),
        say=lambda _: None,
    )
    broken, done = await bulk_run.measure(ground, ["million", "real"])
    assert broken.broke == "headrace reindex ended with [1]"
    assert broken.fails
    assert done.what == "is done"


@pytest.mark.timeout(300)
@pytest.mark.whole_run
def test_a_quick_run_of_all_parts_loses_nothing_and_leaves_no_process(tmp_path: Path) -> None:
    out = tmp_path / "folder" / "bulk.json"
    process = psutil.Popen([sys.executable, str(BENCH / "bulk_run.py"), "--quick", "--out", str(out)])
    assert process.wait(280) == 0
    found = {finding["part"]: finding for finding in json.loads(out.read_text("utf-8"))["findings"]}
    assert list(found) == list(bulk_run.PARTS)
    for part, finding in found.items():
        assert finding["broke"] == "", part
        rows = [verdict for verdict in finding["verdicts"] if verdict["what"].startswith("rows ")]
        assert all(verdict["holds"] for verdict in rows), rows
        assert rows or part == "throughput"
    assert all(verdict["holds"] for verdict in found["chaos"]["verdicts"])
    assert sum(figure["value"] for figure in found["chaos"]["figures"] if figure["unit"] == "times") > 0
    orphans = [each for each in psutil.process_iter(["cmdline", "ppid"]) if each.info["ppid"] == 1]
    assert not [each for each in orphans if {"bulk.held", "bulk.stand_in"} & {*(each.info["cmdline"] or [])}]
