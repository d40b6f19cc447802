"""`headrace models`: what the fleet serves; and the end of a model.

Knows flags and how a ModelSpec is printed. What stands in the way of a model's end is in retirement.py.
"""

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from headrace_contracts import ModelSpec

from headrace.commands.broker import ask
from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Access, Nats
from headrace.commands.tables import print_json, print_table
from headrace.retirement import retire
from headrace.sync import SyncClient

models = typer.Typer()


@models.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the models that the fleet has published. With a command below: do that instead."""
    if context.invoked_subcommand is not None:
        return
    with SyncClient(nats, timeout=CONNECT_S, access=access) as client:
        specs = client.models()
    if as_json:
        for spec in specs:
            print_json(asdict(spec))
        return
    if not specs:
        typer.secho("The fleet serves no model: start a worker with `headrace worker MODEL`.", err=True)
        return
    titles = ("name", "tasks", "dim", "max_length", "pooling", "computes in", "prompts", "source")
    print_table(titles, map(_row, specs), whole=("name",))


@models.command("retire")
def retire_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Served name; `headrace models` lists them.")],
    discard: Annotated[bool, typer.Option("--discard", help="Throw away what is still queued for it.")] = False,
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
) -> None:
    """Remove a model that no worker serves any more: its ModelSpec and its queues.

    Refuses, and says why, while it has workers, unfinished bulk jobs or queued work.
    """
    removed = ask(nats, partial(retire, model=name, discard=discard), access)
    typer.echo(f"{name} is retired: its ModelSpec and {len(removed)} NATS streams are gone")


def _row(spec: ModelSpec) -> tuple[object, ...]:
    tasks, prompts = ", ".join(spec.tasks), ", ".join(spec.prompts) or None
    return spec.name, tasks, spec.dim, spec.max_length, spec.pooling, spec.compute_dtype, prompts, spec.source
