"""The soak: what counts as growth, what a page says, and a quick run with real processes."""

import json
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import soak_run
from soak.page import Page
from soak.slope import Slope, settled

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
    page = Page.parse('# TYPE a gauge\na{x="1"} 2\na{x="2"} 3\n# TYPE b_reconnects counter\nb_reconnects_total 4\n')
    assert page.num_series == 3
    assert page.sums["a"] == 5
    assert page.reconnects() == 4


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
    must_hold = ("reconnects", "calls without an account", "jobs that are not whole", "messages left in queues")
    verdicts = {verdict["what"]: verdict["holds"] for verdict in finding["verdicts"]}
    assert all(verdicts[what] for what in must_hold), verdicts
