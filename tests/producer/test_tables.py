"""Tables of subcommands, in terminals of any width and in pipes."""

import io
import re
import sys

import pytest
from headrace.commands.tables import print_table, rows_of

ROWS = [("nightly", "/data/articles", "a reason that is long, as reasons are"), ("weekly", "/data", None)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, out: io.StringIO, width: int) -> list[str]:
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    print_table(("name", "place", "reason"), ROWS, whole=("name",), cut=("place", "reason"))
    return [re.sub(r"\x1b\[\d*m", "", line).strip() for line in out.getvalue().splitlines()]


def test_a_pipe_has_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    title, first, second = printed(monkeypatch, io.StringIO(), 40)
    assert title.split() == ["name", "place", "reason"]
    assert first.endswith("a reason that is long, as reasons are")
    assert second.endswith("–")


def test_a_terminal_has_what_there_is_room_for_on_one_line_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    title, first, _ = printed(monkeypatch, Terminal(), 50)
    assert title.split() == ["name", "place", "reason"]
    assert first.endswith("…")


def test_columns_without_any_room_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    title, first, _ = printed(monkeypatch, Terminal(), 30)
    assert title.split() == ["name", "place"]
    assert first.split() == ["nightly", "/data/articles"]


def test_one_row_is_no_rows() -> None:
    assert [rows_of(count) for count in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
