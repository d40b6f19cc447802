"""The `headrace` command.

Knows which subcommands there are. Those of other components come in by the entry point group `headrace.commands`, so
that the client imports none of them. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some texts have no vector
or score, 130 interrupted.
"""

import inspect
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.metadata import entry_points
from typing import Annotated

import typer

from headrace.commands.dead import dead
from headrace.commands.demo import demo
from headrace.commands.embed import embed
from headrace.commands.gateway import gateway
from headrace.commands.job import job
from headrace.commands.models import models
from headrace.commands.reindex import reindex
from headrace.commands.score import score
from headrace.commands.telling import exit_code
from headrace.commands.up import up
from headrace.errors import HeadraceError


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(metadata.version("headrace"))
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Text to embeddings and relevance scores over NATS. Try `headrace demo`, then `headrace up`."""


def build() -> typer.Typer:
    """The command with all its subcommands."""
    app = typer.Typer(
        name="headrace",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    for command in (up, embed, score, reindex, models, gateway, demo):
        app.command(help=_flowing(command))(command)
    for name, group in (("job", job), ("dead", dead)):
        app.add_typer(group, name=name)
    for entry in entry_points(group="headrace.commands"):
        command = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)
    return app


def _flowing(command: Callable[..., object]) -> str:
    """A command's help, for terminals of any width: line ends of the source are not those of a paragraph."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(each.split("\n")) for each in paragraphs)


def main() -> None:
    """Run the command line and exit."""
    try:
        build()()
    except HeadraceError as error:
        typer.secho(f"headrace: {error}", err=True, fg="red")
        sys.exit(exit_code(error))
