"""Many texts in calls of a bearable size, with a bar, and what is said of them at the end.

Knows the bar and standard error. Does not know which call it is.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.result import Result
from headrace.sync import SyncClient

# Texts of one call, and calls at a time: enough to keep workers busy, few enough for a bar that moves.
_SLICE, _CALLS = 512, 4
# The exit code when some texts have no result.
SOME_FAILED = 3

R = TypeVar("R", bound=Result)


def in_slices(
    call: Callable[[list[str]], R], client: SyncClient, texts: list[str], doing: str
) -> Iterator[tuple[int, R]]:
    """Call in slices and show how far it is; gives the index of each slice's first text and its result, in order."""
    firsts = range(0, len(texts), _SLICE) or range(1)
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=len(firsts) == 1 or not console.is_terminal)
    with bar, ThreadPoolExecutor(_CALLS) as calls:
        task = bar.add_task("", total=len(texts))
        try:
            slices = calls.map(call, (texts[first : first + _SLICE] for first in firsts))
            for first, result in zip(firsts, slices, strict=True):
                bar.advance(task, len(result))
                yield first, result
        except BaseException:
            # Ctrl-C, or a slice that failed. The pool would wait for the calls that run; closing the client ends them.
            calls.shutdown(wait=False, cancel_futures=True)
            client.close()
            raise


def report(parts: Sequence[Result], what: str) -> int:
    """Say on standard error what was cut and what failed; gives the exit code. `what` is the word for one text."""
    first, truncated, failed = 0, 0, False
    for part in parts:
        truncated += len(part.truncated)
        for index, error in part.errors.items():
            failed = True
            typer.secho(f"{what} {first + index}: {error.code}: {error.text}", err=True, fg="red")
        first += len(part)
    if truncated:
        texts, were = what if first == 1 else f"{what}s", "was" if truncated == 1 else "were"
        said = f"{truncated} of {first} {texts} {were} longer than the model takes and {were} cut"
        typer.secho(said, err=True, fg="yellow")
    return SOME_FAILED if failed else 0
