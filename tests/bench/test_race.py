"""Contenders run in processes of their own, take turns, and are judged; what goes wrong with one is its own affair."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from contenders import DTYPES, Dtype, Entrant
from result import Contender, Entry, Suite
from suites import race as race_module
from suites.field import Field, assembled
from suites.judge import BOUND, WrongShape, divergence
from suites.plan import Plan
from suites.race import Race

from .racing import EMBED, JOBS, SCALE, SCORE, TEXTS, entrant, expected, ground, plan


def run(
    work: Path, entrants: Sequence[Entrant], planned: Plan, say: "list[str] | None" = None
) -> tuple[Suite, tuple[Contender, ...]]:
    said = [] if say is None else say
    with assembled(entrants, ground(work), said.append) as there:
        suite = race(there, work, said).run(planned, lambda: None, lambda: 1e9)
        return suite, there.contenders()


def race(there: Field, work: Path, said: list[str]) -> Race:
    return Race(there, expected(), SCALE, work, said.append)


def entries(suite: Suite, case: str) -> dict[str, Entry]:
    found = next(each for each in suite.cases if each.name == case)
    return {entry.contender: entry for entry in found.entries}


def test_everyone_does_every_case_and_is_found_right(tmp_path: Path) -> None:
    suite, contenders = run(tmp_path, [entrant("one"), entrant("server")], plan())
    assert [case.name for case in suite.cases] == [each.name for each in JOBS]
    for case in suite.cases:
        assert [entry.contender for entry in case.entries] == ["one", "server"]
        for entry in case.entries:
            assert (entry.is_right, entry.reason) == (True, "")
            assert entry.divergence == pytest.approx(0, abs=1e-6)
            assert len(entry.rounds_ms) == len(entry.rounds_per_s) == 3
            assert entry.took is not None
            assert entry.took.num >= 3
            assert entry.per_s > 0
            assert entry.tokens_per_s > 0
            assert entry.limit_share > 0
    assert all(contender.status == "ran" for contender in contenders)
    assert all(contender.versions == {"fake": "1"} and contender.memory_mib > 0 for contender in contenders)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_contender_is_told_its_dtype_and_the_result_keeps_it(tmp_path: Path, dtype: Dtype) -> None:
    second = replace(entrant("one"), dtype=dtype, is_second_choice=True)
    _, (found,) = run(tmp_path, [second], plan(EMBED))
    assert (found.status, found.dtype, found.is_second_choice) == ("ran", dtype, True)
    assert found.settings["dtype"] == dtype


def test_each_round_has_everyone_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    said: list[str] = []
    run(tmp_path, [entrant("a"), entrant("b"), entrant("c")], plan(EMBED, rounds=4), said)
    turns = "".join(text.rpartition(", ")[2] for text in said if "round" in text)
    rounds = [turns[at : at + 3] for at in range(0, 12, 3)]
    assert all(sorted(each) == ["A", "B", "C"] for each in rounds)
    assert len(set(rounds)) > 1


def test_a_contender_that_is_right_only_while_it_warms_up_is_caught(tmp_path: Path) -> None:
    suite, _ = run(tmp_path, [entrant("careless")], plan(EMBED))
    assert not entries(suite, "embed")["careless"].is_right


@pytest.mark.parametrize("name", ["wrong", "scaled", "nan", "short"])
def test_a_contender_that_returns_wrong_vectors_is_caught(tmp_path: Path, name: str) -> None:
    suite, contenders = run(tmp_path, [entrant("one"), entrant(name)], plan(EMBED))
    found = entries(suite, "embed")
    assert found["one"].is_right
    assert not found[name].is_right
    if name in {"wrong", "scaled"}:
        divergence_found = found[name].divergence
        assert divergence_found is not None
        assert divergence_found > BOUND
        assert found[name].took is not None  # its time is shown beside its error
    else:
        assert ("not finite" if name == "nan" else "it gave rows of shape") in found[name].reason
        assert found[name].took is None
    assert contenders[1].status == "ran"  # it may be right elsewhere


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("refuses", "this processor has no bfloat16"),
        ("never-starts", "no module named onnxruntime"),
        ("garbage", "which is no answer"),
    ],
)
def test_a_peer_that_fails_to_start_is_reported_and_does_not_stop_the_rest(
    tmp_path: Path, name: str, reason: str
) -> None:
    suite, contenders = run(tmp_path, [entrant(name), entrant("one")], plan(EMBED))
    assert [(each.name, each.status) for each in contenders] == [("one", "ran"), (name, "failed")]
    assert reason in contenders[1].reason
    assert entries(suite, "embed")["one"].is_right


def test_a_peer_that_is_not_installed_is_reported_as_absent(tmp_path: Path) -> None:
    missing = entrant("one", python=tmp_path / "peers" / "openvino" / "bin" / "python")
    _, contenders = run(tmp_path, [missing, entrant("two")], plan(EMBED))
    assert [(each.name, each.status) for each in contenders] == [("two", "ran"), ("one", "absent")]
    assert "'openvino' is not installed: make bench-peers" in contenders[1].reason


def test_a_case_that_raises_is_marked_and_the_contender_goes_on(tmp_path: Path) -> None:
    suite, contenders = run(tmp_path, [entrant("raises"), entrant("one")], plan(EMBED, SCORE))
    assert entries(suite, "embed")["raises"].reason == "RuntimeError: out of memory"
    assert entries(suite, "score")["raises"].is_right
    assert contenders[0].status == "ran"


def test_a_contender_that_dies_is_out_with_its_last_words_and_the_others_go_on(tmp_path: Path) -> None:
    suite, contenders = run(tmp_path, [entrant("dies"), entrant("one")], plan(EMBED, SCORE))
    died, lived = contenders
    assert (died.status, lived.status) == ("failed", "ran")
    assert "exit code 3" in died.reason
    assert "a last word" in died.reason
    assert "dies" not in entries(suite, "score")
    assert entries(suite, "score")["one"].is_right


def test_a_contender_that_falls_silent_is_given_up_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_module, "_PATIENCE_S", 0.5)
    monkeypatch.setattr("child._STOP_S", 0.5)
    with assembled([entrant("mute"), entrant("one")], ground(tmp_path), lambda _: None) as there:
        mute = there.runners[0].child._process.pid
        suite = race(there, tmp_path, []).run(plan(EMBED, SCORE), lambda: None, lambda: 1e9)
        assert not is_running(mute)  # it would compute beside the others
        contenders = there.contenders()
    assert "did not answer within 0.5 s" in contenders[0].reason
    assert entries(suite, "score")["one"].is_right


def test_clients_that_cannot_connect_fail_their_cases_with_the_reason(tmp_path: Path) -> None:
    suite, contenders = run(tmp_path, [entrant("no-clients"), entrant("one")], plan())
    for case in suite.cases:
        assert "ConnectionError: nobody listens" in entries(suite, case.name)["no-clients"].reason
        assert entries(suite, case.name)["one"].is_right
    assert contenders[0].status == "ran"


def test_no_process_is_left_when_the_field_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("child._STOP_S", 0.5)
    with assembled([entrant("orphans")], ground(tmp_path), lambda _: None) as there:
        orphan = int((tmp_path / "orphan").read_text())
        assert psutil.pid_exists(orphan)
        parent = there.runners[0].child._process.pid
    assert not is_running(orphan)
    assert not is_running(parent)


def test_what_outlives_a_contender_that_dies_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("child._STOP_S", 0.5)
    with assembled([entrant("orphans-and-dies")], ground(tmp_path), lambda _: None) as there:
        orphan = int((tmp_path / "orphan").read_text())
        race(there, tmp_path, []).run(plan(EMBED), lambda: None, lambda: 1e9)
        assert there.runners[0].broken
        assert not is_running(orphan)


def is_running(pid: int) -> bool:
    """A killed orphan may wait for a parent that reaps it."""
    return bool(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


def test_scores_that_are_all_alike_are_wrong() -> None:
    expected_scores = np.array([4.0, -3.0, 1.0], np.float32)
    assert divergence(expected_scores, expected_scores) == 0
    assert divergence(np.full(3, 2.0, np.float32), expected_scores) > BOUND
    assert divergence(expected_scores + np.float32(0.05), expected_scores) < BOUND


def test_rows_in_another_order_are_wrong() -> None:
    rows = np.eye(4, dtype=np.float32)
    assert divergence(rows, rows) == 0
    assert divergence(rows[::-1], rows) == 1


def test_a_row_of_zeros_is_wrong() -> None:
    rows = np.eye(4, dtype=np.float32)
    assert divergence(np.zeros_like(rows), rows) > BOUND


def test_for_vectors_of_length_one_it_is_one_minus_cosine() -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(2, 5, 16))
    ours, theirs = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (ours, theirs))
    expected_divergence = (1 - (ours * theirs).sum(axis=1)).max()
    assert divergence(ours.astype(np.float32), theirs.astype(np.float32)) == pytest.approx(
        expected_divergence, rel=1e-4
    )


def test_rows_of_another_shape_are_named() -> None:
    with pytest.raises(WrongShape, match=r"\(2, 4\) where \(4, 4\)"):
        divergence(np.eye(4, dtype=np.float32)[:2], np.eye(4, dtype=np.float32))


def test_the_limit_is_the_time_of_the_operations_at_the_measured_rate(tmp_path: Path) -> None:
    suite, _ = run(tmp_path, [entrant("one")], plan(EMBED))
    assert suite.cases[0].limit_ms == pytest.approx(1e6 / 1e9 * 1000)
    assert len(TEXTS) == suite.cases[0].texts
