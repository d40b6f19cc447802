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


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, whole: Collection[str] = ()) -> None:
    """Print a table.

    Args:
        titles: of the columns.
        rows: what is in them; None is shown as a dash, and nothing as markup.
        whole: columns that are never folded.
    """
    table = Table(box=None, header_style="bold")
    for title in titles:
        table.add_column(title, no_wrap=title in whole, overflow="fold")
    for row in rows:
        table.add_row(*(Text("–" if each is None else _printable(str(each))) for each in row))
    console = Console()
    Console(width=None if console.is_terminal else _PIPE_WIDTH).print(table)


def print_json(found: Mapping[str, object]) -> None:
    """Print one JSON object as a line."""
    typer.echo(json.dumps(found, ensure_ascii=True))


def _printable(text: str) -> str:
    """The text, in which nothing gives orders to a terminal: much of it comes from elsewhere."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
