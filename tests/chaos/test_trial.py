"""Trials: whole fleets under composed faults, in short; `python bench/survival_run.py` has them at length."""

import asyncio
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from survival import faults, seeds, trial
from survival.breakage import breakage
from survival.breaking import Breaking
from survival.cluster import cluster
from survival.fleet import Size, fleet
from survival.gap import Loss, finding
from survival.history import RESULT, Asked, Ended, History
from survival.passes import Passes
from survival.place import NotPermitted
from survival.possible import possible

from ..waiting import until
from .served import MODEL, NAME

SIZE = Size(rows=6000, rows_per_s=600)
SECONDS = 15


def test_a_plan_is_the_same_for_a_seed_and_a_longer_one_begins_with_it() -> None:
    short, long = faults.plan(7, 20), faults.plan(7, 60)
    assert short == faults.plan(7, 20) == long[: len(short)]
    assert faults.plan(8, 20) != short
    assert all(earlier.at_s < later.at_s < 60 for earlier, later in pairwise(long))


def test_many_plans_have_all_kinds() -> None:
    kinds = Counter(fault.kind for seed in range(30) for fault in faults.plan(seed, 60))
    assert kinds.keys() == set(faults.KINDS)


async def test_each_kind_of_fault_is_known_to_whoever_does_it(tmp_path: Path) -> None:
    size = Size(rows=10)
    passes = Passes(size.places, size.scope(NAME), tmp_path / "access")
    passes.follow([faults.Fault(kind, 0, 1, 4) for kind in faults.KINDS], 0)
    with (
        cluster(tmp_path / "nodes", extra_places=size.places, disk_mb=64, say=lambda _: None) as servers,
        fleet(servers, MODEL, size, 0, tmp_path, passes) as made,
    ):
        for kind in possible(made):
            assert breakage(faults.Fault(kind, 0, 1, 4), made).of
        if servers.kind == "namespaces":
            assert {*possible(made)} | {"worker clock jumps", "caller clock jumps"} == {*faults.KINDS}


@pytest.mark.parametrize("num", [1, 3])
async def test_what_cannot_be_done_or_leaves_nothing_promised_is_in_no_plan(tmp_path: Path, num: Literal[1, 3]) -> None:
    size = Size(servers=num, rows=10)
    with (
        cluster(tmp_path / "nodes", size=num, kind="processes", extra_places=size.places) as servers,
        fleet(servers, MODEL, size, 0, tmp_path) as made,
    ):
        left_out = {*faults.KINDS} - {*possible(made), "worker clock jumps", "caller clock jumps"}
        stores = {kind for kind in left_out if kind.startswith("node store")}
        unlinked = {kind for kind in faults.KINDS if kind.startswith(("link", "route"))}
        unasked = {kind for kind in faults.KINDS if kind.startswith("credentials")}
        assert left_out - stores == unlinked | unasked
        assert len(stores) == (2 if num == 1 else 0), "a single copy is lost with its disk"
        with pytest.raises(ValueError, match="no links"):
            breakage(faults.Fault("link slow", 0, 1, 4), made)
        with pytest.raises(ValueError, match="nobody has credentials"):
            breakage(faults.Fault("credentials of a worker expire", 0, 1, 4), made)


async def test_one_server_in_a_namespace_has_links_and_no_routes(tmp_path: Path) -> None:
    size = Size(servers=1, rows=10)
    try:
        with (
            cluster(tmp_path / "nodes", size=1, kind="namespaces", extra_places=size.places) as servers,
            fleet(servers, MODEL, size, 0, tmp_path) as made,
        ):
            links = {kind for kind in possible(made) if kind.startswith(("link", "route"))}
            assert links == {kind for kind in faults.KINDS if kind.startswith("link")}
    except NotPermitted as error:
        pytest.skip(str(error))


async def test_what_is_broken_is_mended_though_the_trial_is_given_up(tmp_path: Path) -> None:
    size = Size(rows=10)
    said: list[str] = []
    with (
        cluster(tmp_path / "nodes", size=1, extra_places=size.places, say=lambda _: None) as servers,
        fleet(servers, MODEL, size, 0, tmp_path) as made,
    ):
        await servers.ready()
        breaking = Breaking(made, said.append)
        running = asyncio.create_task(breaking.run([faults.Fault("node killed", 0, 0.5, 0)]))
        await until(lambda: said != [], "it has begun")
        running.cancel()
        await asyncio.wait([running])
        assert [done.kind for done in breaking.done] == ["node killed"]
        await servers.ready()
        assert servers.nodes["left"].is_running


def asked(call: str, at_s: float) -> Asked:
    return Asked(call=call, at_s=at_s, texts=(0,), timeout_s=5)


def answered(call: str, at_s: float) -> Ended:
    return Ended(call=call, at_s=at_s, end=RESULT)


def test_a_gap_is_that_of_the_loss_and_calls_that_fail_are_told() -> None:
    history = History(
        caller="c",
        asked=[asked(f"c-{n}", float(n)) for n in range(10)],
        ended=[
            *(answered(f"c-{n}", n + 0.1) for n in (0, 1, 2, 6, 7, 8)),
            Ended(call="c-3", at_s=3.2, end="ModelNotFound", text="none"),
            Ended(call="c-4", at_s=9.01, end="DeadlineExceeded", text="no reply"),
        ],
    )
    found = finding([Loss("server", "left killed", 2.0, 4.0), Loss("server", "right killed", 7.0, 8.0)], [history])
    gap, of_one, early, late = found.verdicts
    # From the moment in which somebody asks: before, nobody missed anything.
    assert gap.found == of_one.found == pytest.approx(3.1)
    assert (early.found, late.found) == (1, 1)
    assert found.notes == ["c-3: ModelNotFound: none", "c-4: DeadlineExceeded: no reply"]
    figures = {figure.what: figure.value for figure in found.figures}
    assert figures["right killed: gap of all callers"] < 1.1
    assert figures["right killed: slowest call"] == pytest.approx(5.01)
    assert figures["left killed: slowest call"] == pytest.approx(0.2)
    assert figures["left killed, then back: slowest call"] == pytest.approx(5.01)


def test_a_gap_of_one_caller_is_none_of_all_and_one_of_a_worker_is_judged_by_its_failures_alone() -> None:
    one = History(
        caller="one",
        asked=[asked(f"one-{n}", n / 10) for n in range(100)],
        ended=[answered(f"one-{n}", max(n / 10, 4.0 if 20 <= n < 40 else 0) + 0.01) for n in range(100)],
    )
    other = History(
        caller="other",
        asked=[asked(f"other-{n}", n / 10) for n in range(100)],
        ended=[answered(f"other-{n}", n / 10 + 0.01) for n in range(100)],
    )
    server, worker = Loss("server", "left frozen", 2.0, 5.0), Loss("worker", "worker 0 frozen", 2.0, 5.0)
    gap, of_one, *failed = finding([server], [one, other]).verdicts
    assert gap.found < 0.2
    assert of_one.found == pytest.approx(2.01)
    assert [each.found for each in failed] == [0, 0]
    assert all(verdict.holds for verdict in finding([worker], [one, other]).verdicts)


@pytest.mark.timeout(400)  # a trial waits for its job, on cores that others use, too
@pytest.mark.parametrize("seed", seeds.FAILED)
async def test_a_seed_that_has_failed_holds(tmp_path: Path, seed: int) -> None:
    found = await trial.run(seed, model=MODEL, seconds=SECONDS, size=SIZE, work=tmp_path, say=lambda _: None)
    assert found.violations == ()
    assert found.calls[RESULT] > 0
    assert found.faults.total() == len(faults.plan(seed, SECONDS))
