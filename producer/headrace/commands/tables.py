"""How subcommands print tables and JSON lines, the same everywhere.

Knows rich and the terminal. Does not know what is in them.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

# A table for a pipe must not be folded at some terminal's width.
_PIPE_WIDTH = 200
# Between columns; and what is left of one that is cut, at the least.
_GAP, _LEAST = 2, 12


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, whole: Collection[str] = (), cut: Collection[str] = ()
) -> None:
    """Print a table.

    Args:
        titles: of the columns.
        rows: what is in them; None is shown as a dash, and nothing as markup.
        whole: columns that are never folded.
        cut: columns that are cut where a terminal has no room, rather than folded; the last of them are left out where
            there is none at all.
    """
    shown = [[None if each is None else printable(str(each)) for each in row] for row in rows]
    console = Console()
    width = console.width if console.is_terminal else _PIPE_WIDTH
    if console.is_terminal:
        titles = _with_room(titles, shown, cut, width)
    else:
        cut = ()
    table = Table(box=None, header_style="bold")
    for title in titles:
        table.add_column(title, no_wrap=title in whole, overflow="fold")
    for row in shown:
        table.add_row(*(_cell(each, is_cut=title in cut) for title, each in zip(titles, row, strict=False)))
    Console(width=width).print(table)


def print_json(found: Mapping[str, object]) -> None:
    """Print one JSON object as a line."""
    typer.echo(json.dumps(found, ensure_ascii=True))


def rows_of(count: int) -> str:
    """A number of rows, in words."""
    return f"{count:,} row{'' if count == 1 else 's'}"


def _with_room(titles: Sequence[str], rows: list[list[str | None]], cut: Collection[str], width: int) -> Sequence[str]:
    """The titles without those last columns that would be cut to nothing."""
    widths = [max(map(len, (title, *(row[at] or "" for row in rows)))) for at, title in enumerate(titles)]
    while titles and titles[-1] in cut:
        room = width - sum(w + _GAP for title, w in zip(titles, widths, strict=False) if title not in cut)
        needed = sum(min(w, _LEAST) + _GAP for title, w in zip(titles, widths, strict=False) if title in cut)
        if room >= needed:
            break
        titles = titles[:-1]
    return titles


def _cell(value: str | None, *, is_cut: bool) -> Text:
    text = "–" if value is None else value
    return Text(text, no_wrap=True, overflow="ellipsis") if is_cut else Text(text)


def printable(text: str) -> str:
    """The text, in which nothing gives orders to a terminal: much of it comes from elsewhere."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
