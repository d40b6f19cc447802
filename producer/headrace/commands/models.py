"""`headrace models`: what the fleet serves."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Nats
from headrace.sync import SyncClient


def models(
    nats: Nats = DEFAULT_NATS,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the models that the fleet has published."""
    with SyncClient(nats, timeout=CONNECT_S) as client:
        specs = client.models()
    if as_json:
        for spec in specs:
            typer.echo(json.dumps(asdict(spec)))
        return
    if not specs:
        typer.secho("The fleet serves no model: start a worker with `headrace worker MODEL`.", err=True)
        return
    table = Table(box=None, header_style="bold")
    for title in ("name", "tasks", "dim", "max_length", "pooling", "computes in", "prompts", "source"):
        table.add_column(title, no_wrap=title == "name", overflow="fold")
    for spec in specs:
        prompts = ", ".join(spec.prompts) or "–"
        tasks, numbers = ", ".join(spec.tasks), (str(spec.dim), str(spec.max_length))
        table.add_row(spec.name, tasks, *numbers, spec.pooling, spec.compute_dtype, prompts, spec.source)
    console = Console()
    # A table for a pipe must not be folded at some terminal's width.
    Console(width=None if console.is_terminal else 200).print(table)
