"""`headrace embed`: texts from the command line or a file, vectors to the terminal or a file.

Knows the flags and the bar. Does not know file formats: files.py does.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import typer
from headrace_contracts import Dtype, Priority
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.commands import files
from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, ModelName, Nats
from headrace.embeddings import Embeddings
from headrace.sync import SyncClient

# Texts of one call, and calls at a time: enough to keep workers busy, few enough for a bar that moves.
_SLICE, _CALLS = 512, 4
SOME_FAILED = 3


def embed(  # noqa: PLR0913, PLR0917 - one argument a flag is how typer spells a command
    texts: Annotated[list[str], typer.Argument(metavar="TEXT... | FILE", help="Texts, a .txt or .jsonl file, or -.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .npy or .parquet file. (default: JSON lines to stdout)")
    ] = None,
    model: ModelName = None,
    priority: Annotated[
        str | None, typer.Option(help="online or batch. (default: batch for a file, else online)")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="One of the model's prompts to put before each text.")] = None,
    dim: Annotated[int | None, typer.Option(help="Leading dimensions to keep.")] = None,
    dtype: Annotated[str, typer.Option(help="f32 or f16.")] = "f32",
    timeout: Annotated[float | None, typer.Option(help="Seconds. (default: 30 online, 3600 batch)")] = None,
    truncate: Annotated[bool, typer.Option(help="Cut texts that are too long, or give them no vector.")] = True,
    column: Annotated[str, typer.Option(help="Field of a .jsonl line that holds the text.")] = "text",
    nats: Nats = DEFAULT_NATS,
) -> None:
    """Embed texts. Exit code 3 says that some of them have no vector; standard error says which and why."""
    source = files.read(texts, column)
    if output is not None:
        files.check_output(output)
    with SyncClient(nats, timeout=CONNECT_S) as client:
        call = partial(
            client.embed,
            model=model,
            priority=cast("Priority", priority or ("batch" if source.is_file else "online")),
            prompt_name=prompt_name,
            dim=dim,
            dtype=cast("Dtype", dtype),
            timeout=timeout,
            truncate=truncate,
        )
        parts = []
        for first, vectors in _in_slices(call, client, source.texts):
            parts.append(vectors)
            if output is None:
                files.print_lines(source.texts[first : first + len(vectors)], vectors)
    if output is not None:
        files.write(output, source.texts, parts)
        typer.secho(f"{len(source.texts)} vectors to {output}", err=True)
    sys.exit(SOME_FAILED if _report(parts) else 0)


def _in_slices(call: "partial[Embeddings]", client: SyncClient, texts: list[str]) -> Iterator[tuple[int, Embeddings]]:
    """Embed in slices and show how far it is; gives the index of each slice's first text and its vectors, in order."""
    firsts = range(0, len(texts), _SLICE) or range(1)
    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=len(firsts) == 1 or not console.is_terminal)
    with bar, ThreadPoolExecutor(_CALLS) as calls:
        task = bar.add_task("", total=len(texts))
        try:
            slices = calls.map(call, (texts[first : first + _SLICE] for first in firsts))
            for first, vectors in zip(firsts, slices, strict=True):
                bar.advance(task, len(vectors))
                yield first, vectors
        except BaseException:
            # Ctrl-C, or a slice that failed. The pool would wait for the calls that run; closing the client ends them.
            calls.shutdown(wait=False, cancel_futures=True)
            client.close()
            raise


def _report(parts: list[Embeddings]) -> bool:
    """Say on standard error what was cut and what failed; whether anything failed."""
    first, truncated, failed = 0, 0, False
    for part in parts:
        truncated += len(part.truncated)
        for index, error in part.errors.items():
            failed = True
            typer.secho(f"text {first + index}: {error.code}: {error.text}", err=True, fg="red")
        first += len(part)
    if truncated:
        typer.secho(
            f"{truncated} of {first} texts were longer than the model takes and were cut", err=True, fg="yellow"
        )
    return failed
