"""The soak: what counts as growth, what a page says, and a quick run with real processes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soak_run
from online.call import Call
from online.plan import When
from soak.accounts import Account
from soak.drift import Drift
from soak.page import Page
from soak.slope import Slope, settled
from survival.ledger import Ledger

BENCH = Path(soak_run.__file__).parent
MOMENTS = [10.0 * number for number in range(120)]


def test_what_comes_and_goes_is_flat_and_what_grows_steadily_is_not() -> None:
    random = np.random.default_rng(0)
    noise = random.normal(0, 3, len(MOMENTS))
    assert Slope.of(MOMENTS, (200 + noise).tolist()).over_noise <= 1
    growing = Slope.of(MOMENTS, (200 + noise + np.asarray(MOMENTS) / 20).tolist())
    assert growing.over_noise > 1
    assert growing.per_hour == pytest.approx(180, rel=0.05)
    assert Slope.of(MOMENTS, (200 - np.asarray(MOMENTS) / 20).tolist()).over_noise == 0


def test_a_single_peak_bends_no_line() -> None:
    samples = [100.0] * len(MOMENTS)
    samples[-2] = 10_000
    assert Slope.of(MOMENTS, samples).per_hour == 0


def test_the_first_third_does_not_count() -> None:
    samples = [float(number) for number in range(40)] + [40.0] * 80
    counted = settled(samples)
    assert Slope.of(MOMENTS[counted], samples[counted]).over_noise == 0
    assert Slope.of(MOMENTS, samples).level == 40


def test_a_page_is_read_by_its_series() -> None:
    page = Page.parse(
        '# TYPE a gauge\na{x="1"} 2\na{x="2"} 3\n# TYPE b_reconnects counter\nb_reconnects_total 4\n'
        '# TYPE c info\nc_info{worker="mill"} 1\n'
    )
    assert page.num_series == 4
    assert page.facts == {"c_info": {"worker": "mill"}}
    assert page.sums["a"] == 5
    assert page.reconnects() == 4


def calls(took_ms: Callable[[float], float]) -> list[Call]:
    """Twenty a second for ten minutes, each answered in what a function of its moment says."""
    moments = np.arange(0, 600, 0.05).tolist()
    return [Call(began_s=1000 + at_s, late_ms=0, took_ms=took_ms(at_s), kind="answered") for at_s in moments]


def drift(took_ms: Callable[[float], float]) -> dict[str, float]:
    found = Drift.of(calls(took_ms), When(begin_s=1000, seconds=600)).slopes()
    return {name: slope.over_noise for name, slope in found.items()}


def test_calls_that_take_as_long_in_the_end_are_steady_and_those_that_take_longer_and_longer_are_not() -> None:
    random = np.random.default_rng(0)
    steady = drift(lambda _: 20 + random.exponential(5))
    assert steady["p50"] <= 1
    assert steady["p95"] <= 1
    slower = drift(lambda at_s: 20 + random.exponential(5) + at_s / 60)
    assert slower["p50"] > 1
    assert slower["p95"] > 1


def test_a_tail_that_grows_alone_is_told_by_its_percentile() -> None:
    random = np.random.default_rng(0)
    found = drift(lambda at_s: 20 + random.exponential(1) * (1 if random.random() < 0.8 else 1 + at_s / 10))
    assert found["p50"] <= 1 < found["p95"]


def test_the_longer_calls_of_a_start_are_no_drift_and_nothing_is_said_of_too_few() -> None:
    assert drift(lambda at_s: 500 if at_s < 100 else 20)["p95"] == 0
    assert Drift.of([], When(begin_s=0, seconds=60)).slopes() == {}
    few = [Call(began_s=at_s, late_ms=0, took_ms=20, kind="answered") for at_s in (1, 2, 3)]
    assert Drift.of([*few, few[0]._replace(kind="refused")], When(begin_s=0, seconds=60)).at_s == [1, 3]


def account(told: float = 4, **changes: Any) -> Account:
    ledger = Ledger(worker="mill", **{"delivered": 5, "answered": 3, "expired": 1, "given_back": 1, **changes})
    return Account(ledger, Page(1, {"headrace_worker_chunks_total": told}, {}))


def test_an_account_balances_or_says_what_is_missing_and_agrees_with_its_page() -> None:
    assert account().faults == []
    (missing,) = account(delivered=6).faults
    assert missing.startswith("mill was handed 6 messages and has settled 5")
    assert account(held=1, held_bytes={"online": 0, "batch": 100}, credit_bytes={"online": 7}).faults == [
        "mill ended with 1 messages in hand",
        "mill ended with 100 bytes of held in its batch purse",
        "mill ended with 7 bytes of credit in its online purse",
    ]
    assert account(told=3).faults == ["mill has answered 4 chunks, and its page tells of 3"]


@pytest.mark.parametrize("wrong", [["--minutes", "0"], ["--workers", "none"], ["--documents", "-1"]])
def test_a_wrong_flag_ends_the_program(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soak_run.Flags.parse(wrong)
    assert wrong[0] in capsys.readouterr().err


@pytest.mark.timeout(180)
@pytest.mark.whole_run
def test_a_quick_run_answers_calls_writes_rows_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    process = psutil.Popen([sys.executable, str(BENCH / "soak_run.py"), "--quick", "--out", str(out)])
    assert process.wait(170) == 0
    (finding,) = json.loads(out.read_text("utf-8"))["findings"]
    assert finding["notes"] == []
    figures = {figure["what"]: figure["value"] for figure in finding["figures"]}
    assert figures["queries answered"] > 0
    assert figures["http answered"] > 0
    assert figures["rows that they wrote"] > 0
    assert figures["worker 1, series"] > 0
    assert figures["messages that workers were handed"] == figures["messages that they settled"] > 0
    must_hold = (
        *("reconnects", "calls without an account", "jobs that are not whole", "messages left in queues"),
        *("results of jobs left", "dead letters", "messages handed to workers and not settled"),
        *("messages that workers abandoned", "bytes held by workers", "bytes of credit left with the broker"),
        "faults in workers' ledgers",
    )
    verdicts = {verdict["what"]: verdict["holds"] for verdict in finding["verdicts"]}
    assert all(verdicts[what] for what in must_hold), verdicts
