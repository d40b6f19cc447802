"""The `headrace` command.

Knows which subcommands there are. Those of other components come in by the entry point group `headrace.commands`, so
that the client imports none of them. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some texts have no vector
or score, 130 interrupted. All that is said of a run goes to standard error, as logs.py has it.
"""

import inspect
import logging
import os
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.metadata import entry_points
from typing import Annotated, NoReturn

import typer
from headrace_contracts.api import in_words
from nats.errors import Error as NatsError

from headrace import logs, telemetry
from headrace.commands.access import access
from headrace.commands.dead import dead
from headrace.commands.demo import demo
from headrace.commands.embed import embed
from headrace.commands.exporter import exporter
from headrace.commands.gateway import gateway
from headrace.commands.job import job
from headrace.commands.models import models
from headrace.commands.reindex import reindex
from headrace.commands.score import score
from headrace.commands.telling import exit_code
from headrace.commands.top import top
from headrace.commands.up import up
from headrace.commands.workers import workers
from headrace.errors import ConnectionFailed, HeadraceError
from headrace.logs import Format, Level, LogConfig

logger = logging.getLogger(__name__)

# Commands that serve until they are stopped: their logs are how they are watched. The others speak up when need be.
_SERVICES = frozenset({"worker", "gateway", "exporter"})
_FORMAT, _LEVEL = "HEADRACE_LOG_FORMAT", "HEADRACE_LOG_LEVEL"


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(metadata.version("headrace"))
        raise typer.Exit


def options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback has done it
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
    log_format: Annotated[
        Format,
        typer.Option(
            envvar=_FORMAT,
            case_sensitive=False,
            help="Of what is logged, on standard error: lines for people, or JSON. auto: json but on a terminal.",
        ),
    ] = "auto",
    log_level: Annotated[
        Level | None,
        typer.Option(
            envvar=_LEVEL,
            case_sensitive=False,
            help="The least that is logged. (default: info of what serves, as workers; else warning)",
        ),
    ] = None,
) -> None:
    """Text to embeddings and relevance scores over NATS. Try `headrace demo`, then `headrace up`."""
    # What other processes of ours this one starts, as `headrace up` does, log in the same way.
    os.environ[_FORMAT] = log_format
    if log_level is not None:
        os.environ[_LEVEL] = log_level
    usual: Level = "info" if context.invoked_subcommand in _SERVICES else "warning"
    logs.set_up(LogConfig(format=log_format, level=log_level or usual))
    if context.invoked_subcommand is not None:
        telemetry.set_up(context.invoked_subcommand)


def build() -> typer.Typer:
    """The command with all its subcommands."""
    app = typer.Typer(
        name="headrace",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    for command in (up, embed, score, reindex, top, gateway, exporter, demo):
        app.command(help=_flowing(command))(command)
    for name, group in (("job", job), ("models", models), ("dead", dead), ("workers", workers), ("access", access)):
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
        _fail(error)
    except NatsError as error:
        # Of one that is busy with itself, such as a cluster that has just lost a server.
        _fail(
            ConnectionFailed(
                f"nats-server does not answer as it should: {in_words(error)}: see how it is, and try again"
            )
        )
    except Exception:
        # Not as a bare traceback: logs are read by line, and secrets are taken out of them.
        logger.critical("This is a bug: the command ended by an error that nobody thought of", exc_info=True)
        sys.exit(1)


def _fail(error: HeadraceError) -> NoReturn:
    typer.secho(f"headrace: {error}", err=True, fg="red")
    sys.exit(exit_code(error))
