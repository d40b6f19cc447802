"""`headrace models`: what the fleet serves."""

from dataclasses import asdict
from typing import Annotated

import typer
from headrace_contracts import ModelSpec

from headrace.commands.flags import CONNECT_S, DEFAULT_NATS, Access, Nats
from headrace.commands.tables import print_json, print_table
from headrace.sync import SyncClient


def models(
    nats: Nats = DEFAULT_NATS,
    access: Access = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the models that the fleet has published."""
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


def _row(spec: ModelSpec) -> tuple[object, ...]:
    tasks, prompts = ", ".join(spec.tasks), ", ".join(spec.prompts) or None
    return spec.name, tasks, spec.dim, spec.max_length, spec.pooling, spec.compute_dtype, prompts, spec.source
