"""The bar, the lines, and what shows them."""

import asyncio
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

import pytest
from headrace.bulk.bar import Bar, duration, how_far, how_it_goes
from headrace.bulk.lines import Lines
from headrace.bulk.progress import Progress, Snapshot
from headrace.bulk.show import How, show

from ...waiting import until


def some(total_rows: int | None = 2000) -> Progress:
    progress = Progress(total_rows)
    progress.stage = "running"
    progress.snapshot(0.0)
    progress.rows_done, progress.tokens_done = 999, 12_340
    progress.chunks_queued, progress.windows_in_flight = 1, 2
    return progress


def at_ten(progress: Progress) -> Snapshot:
    return progress.snapshot(10.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Wrapped(io.TextIOWrapper):
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


@contextmanager
def nobody_reads(*, terminal: bool) -> Iterator[TextIO]:
    read, write = os.pipe()
    os.close(read)
    with Wrapped(io.FileIO(write, "w"), write_through=True) as file:
        file.is_terminal = terminal
        yield file


def test_the_numbers_read_well() -> None:
    assert how_far(at_ten(some())) == "49 % · 999 of 2,000 rows · 1,234 tokens/s · 10 s left"
    assert how_it_goes(at_ten(some())) == "1 chunk queued · 2 windows in flight"
    assert how_far(at_ten(some(None))) == "999 rows · 1,234 tokens/s"


def test_a_corpus_without_rows_is_done_at_once() -> None:
    progress = Progress(0)
    progress.stage = "done"
    assert how_far(progress.snapshot(0.0)) == "100 % · 0 of 0 rows"
    Bar(io.StringIO()).draw(progress.snapshot(1.0))


def test_what_went_wrong_is_there_when_something_did() -> None:
    progress = some()
    progress.rows_failed, progress.retries, progress.rows_unchanged, progress.processes = 1, 2, 3, 4
    said = how_it_goes(at_ten(progress))
    assert said.endswith("3 rows unchanged · 2 retries · 1 row failed · 4 processes")


def test_nothing_is_queued_when_all_is_over() -> None:
    progress = some()
    progress.stage, progress.windows_in_flight = "done", 0
    assert not how_it_goes(at_ten(progress))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0 s"), (59.9, "1 min 0 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h"), (125, "2 min 5 s")],
)
def test_durations_have_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_line_has_all_fields_and_the_time_of_day() -> None:
    out = io.StringIO()
    Lines(out, lambda: datetime(2026, 11, 30, 12, tzinfo=UTC)).draw(at_ten(some()))
    line = json.loads(out.getvalue())
    assert line["time"] == "2026-11-30T12:00:00.000+00:00"
    assert line["stage"] == "running"
    assert (line["rows_done"], line["total_rows"], line["tokens_per_s"]) == (999, 2000, 1234.0)
    assert set(line) == {"time", *Snapshot.__dataclass_fields__}


def test_silence_is_told_once_it_is_odd() -> None:
    progress = some()
    progress.snapshot(10.0)
    assert "no answer" not in how_it_goes(progress.snapshot(39.0))
    assert how_it_goes(progress.snapshot(75.0)).startswith("no answer for 1 min 5 s: does a worker run? · 1 chunk")
    progress.tokens_done += 1
    assert "no answer" not in how_it_goes(progress.snapshot(80.0))


def test_a_narrow_terminal_has_the_numbers_and_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "46")
    out = Terminal()
    bar = Bar(out)
    bar.draw(at_ten(some()))
    bar.close()
    assert "running · 49 % · 999 of 2,000 rows · 1,234 to" in out.getvalue()
    assert "━" not in out.getvalue()


def test_the_cursor_is_never_hidden_for_who_kills_the_process_would_miss_it() -> None:
    out = Terminal()
    Bar(out).draw(at_ten(some()))
    assert "\x1b[?25l" not in out.getvalue()


@pytest.mark.parametrize("total", [None, 0, 5, 2000])
def test_a_bar_is_drawn_for_any_total(total: int | None) -> None:
    out = Terminal()
    bar = Bar(out)
    bar.draw(at_ten(some(total)))
    bar.close()
    assert "running" in out.getvalue()


@pytest.mark.parametrize("how", ["bar", "json"])
async def test_what_is_shown_last_is_how_it_ended(how: How) -> None:
    out, progress = Terminal(), some()
    showing = asyncio.create_task(show(progress, how, out))
    await until(lambda: bool(out.getvalue()), "something is shown")
    progress.stage, progress.rows_done = "done", 2000
    showing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await showing
    assert "done" in out.getvalue()
    assert "2,000 of 2,000" in out.getvalue() if how == "bar" else '"rows_done": 2000' in out.getvalue()


async def test_a_bar_falls_back_to_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    showing = asyncio.create_task(show(some(), "bar", out))
    await until(lambda: "\n" in out.getvalue(), "a line is written")
    showing.cancel()
    await asyncio.wait([showing])
    assert [json.loads(line)["stage"] for line in out.getvalue().splitlines()] == ["running", "running"]


async def test_nothing_is_shown_when_nothing_is_asked_for() -> None:
    out = io.StringIO()
    await show(some(), "none", out)
    assert not out.getvalue()


@pytest.mark.parametrize("how", ["bar", "json"])
async def test_a_reader_that_is_gone_ends_the_showing_and_nothing_else(how: How) -> None:
    with nobody_reads(terminal=how == "bar") as out:
        await asyncio.wait_for(show(some(), how, out), 20)


async def test_a_closed_file_ends_the_showing_too() -> None:
    out = io.StringIO()
    out.close()
    await asyncio.wait_for(show(some(), "json", out), 20)


async def test_a_reader_that_stands_still_does_not_hold_up_the_event_loop() -> None:
    class Stuck(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.is_stuck, self.go_on = threading.Event(), threading.Event()

        def write(self, text: str) -> int:
            self.is_stuck.set()
            self.go_on.wait()
            return super().write(text)

    out = Stuck()
    showing = asyncio.create_task(show(some(), "json", out))
    await until(out.is_stuck.is_set, "the reader stands still")
    assert not showing.done()  # and this code runs
    showing.cancel()
    out.go_on.set()
    await asyncio.wait([showing])
    assert showing.cancelled()
